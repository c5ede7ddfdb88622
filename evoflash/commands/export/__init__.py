"""`evoflash export`: any genome as files that need no evoflash.

command       the command's options
written       writes the files
again         the commands that export a genome, for what other commands print
"""
