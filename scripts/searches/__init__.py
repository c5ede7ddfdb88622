"""The past searches that ship with evoflash; records of searches.

ship    Writes the past searches that ship with evoflash, from databases of searches and from recorded spaces
stages  Where the seconds of `evoflash search` go, by stage and by rung, and how busy the GPU is meanwhile
"""
