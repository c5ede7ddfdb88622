"""`evoflash export`: any genome as one .cu file.

command       the command's options
"""
