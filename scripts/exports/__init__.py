"""Whether exported kernels are right, in programs that know nothing of evoflash.

measure  Exports for PyTorch, tried where evoflash is not
"""
