"""`evoflash new`: a family, an operator, a GPU or a strategy of one's own, as working files to begin from.

command   the command's options
files     what is written, and where
texts/    the files to begin from; `my_name` in them becomes the name that was asked for
"""
