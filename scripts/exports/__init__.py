"""What exported kernels cost and whether they are right, in programs that know nothing of evoflash.

measure  Exports for PyTorch, tried where evoflash is not
"""
