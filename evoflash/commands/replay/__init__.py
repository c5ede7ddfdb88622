"""`evoflash replay`: search strategies compared on a recorded space, by evoflash/replay/.

command     the command's options
report      a comparison as a table or JSON
"""
