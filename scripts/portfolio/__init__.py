"""Portfolios: what was measured for choosing them.

row_classes  Times kernels of the linear layer, each compiled for several numbers of rows, on the same rows of
             x
"""
