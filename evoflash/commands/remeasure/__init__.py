"""`evoflash remeasure`: estimates made elsewhere, measured on the GPU of this machine.

command     the command's options
run         known genomes, checked, timed and stored as a run of their own
"""
