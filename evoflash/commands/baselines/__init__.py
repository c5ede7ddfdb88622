"""`evoflash baselines`: what the libraries' attention kernels reach on a problem, timed in turns.

command     the command's options
run         the baselines timed, checked and stored
report      their times as tables or JSON
"""
