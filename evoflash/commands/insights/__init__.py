"""`evoflash insights`: what a stored search has learnt: operators, the winner's way, values of genes.

command     the command's options
digest      the counts, from the stored history
report      the counts as tables or JSON
words       what was learnt of values, failures and operators, in sentences
"""
