"""A long search on a GPU among candidates that crash, hang or give NaN: nothing may be lost.

run         starts, ends and continues the search, then makes the account

planting    copies of the families with faults planted in every tenth genome
account     what became of the planted genomes, and whether the database is whole
"""
