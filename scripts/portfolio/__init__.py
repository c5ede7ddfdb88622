"""Whether a portfolio keeps its promises on a GPU: its regret, its numbers, what its dispatcher costs.

measure     `evoflash portfolio` on a mix of shapes, and in_package.py on the package that it writes
in_package  what runs there, in a Python without evoflash: PyTorch and the exported package alone
"""
