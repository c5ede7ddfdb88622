"""The past searches that ship with evoflash; records of searches.

ship  Writes the past searches that ship with evoflash, from databases of searches and from recorded spaces
"""
