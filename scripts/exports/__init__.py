"""Whether exported kernels are right, in programs that know nothing of evoflash.

host_cost  What the Python side of an exported kernel's call costs the host, without a GPU. Times no
           kernel
measure    Exports for PyTorch, measured where evoflash is not
"""
