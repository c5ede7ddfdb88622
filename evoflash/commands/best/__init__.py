"""`evoflash best`: the best kernel known for a problem, from the database or from the shipped archive.

command     the command's options
answer      which kernel it is, checked (and where its GPU is, timed) again where it is the archive's
"""
