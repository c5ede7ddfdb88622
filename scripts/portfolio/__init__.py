"""Portfolios: what was measured for choosing them.

regret_of_rows  Says what regret few kernels have over 1 to 64 rows of a linear layer, from two records
row_classes     Times kernels of the linear layer, each compiled for several numbers of rows, on the same rows
                of x
"""
