"""What searches are made of: their stages, and the past searches that ship.

ship    Writes the past searches that ship with evoflash, from databases of searches and from recorded spaces
stages  Where the seconds of `evoflash search` go, by stage and by rung, and how busy the GPU is meanwhile
        (dmon)
"""
