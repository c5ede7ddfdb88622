"""A long search on a GPU among candidates that crash, hang or give NaN: nothing may be lost.

account   The account of a soak
planting  Copies of the shipped families with a fault planted in every tenth genome
run       A long search on the GPU with a tenth of its candidates planted to crash, to hang or to give NaN.
"""
