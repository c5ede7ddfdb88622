"""`evoflash db check`: whether a database is whole.

command   the command's options
report    what was found, as text or JSON
"""
