"""`evoflash record`: what a search found out, as a file that `evoflash replay` and other tuners read.

command     the command's options
recording   the store's outcomes for a problem on a GPU, as a recorded space
"""
