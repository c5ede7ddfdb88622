"""`evoflash compare`: which of two kernels is faster on this GPU, or that it is unclear.

command     the command's options
start       two words in, the outcome of a GPU process out
kernels     what the two words on the command line stand for, compiled
run         both checked, timed in pairs and checked again, in a GPU process
report      the comparison as text or JSON
"""
