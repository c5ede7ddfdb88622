"""`evoflash insights`: what each mutation operator brought in a stored search, and how its winner came about.

command     the command's options
digest      the counts, from the stored history
report      the counts as tables or JSON
"""
