"""Whether a portfolio keeps its promises on a GPU: its regret, its numbers, what its dispatcher costs.

in_package  An exported portfolio tried in a Python that has PyTorch and not evoflash
measure     A portfolio measured on this machine's GPU, and its exported package tried where evoflash is not
"""
