"""`evoflash status` and `evoflash watch`: a search that another process runs.

command   the commands' options
report    a run in some lines, and the same drawn until it ends
"""
