"""`evoflash export`: any genome as one .cu file.

command       the command's options
known_genome  the genome of an id, from the database or the archive
"""
