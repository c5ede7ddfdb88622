"""`evoflash runs`: the searches of a database, listed, renamed, merged, deleted.

command   the commands' options
cost      what a run took, in words, and in money
report    the list as a table or JSON
"""
