"""Searches beside their control arms.

arms    Search and its control arm at equal budget on one problem, then both winners and the baselines in
        turns
ship    Writes the past searches that ship with evoflash, from databases of searches and from recorded spaces
stages  Where the seconds of `evoflash search` go, by stage and by rung, and how busy the GPU is meanwhile
"""
