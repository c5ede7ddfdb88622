"""`evoflash runs`: the searches of a database, listed, renamed, merged, deleted.

command   the commands' options
report    the list as a table or JSON
"""
