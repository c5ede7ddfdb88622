"""What exported kernels cost and whether they are right, in programs that know nothing of evoflash.

measure     exports kernels of the archive and runs on_gpu/ on them, in a Python without evoflash
host_cost   the Python side of a call without a GPU, against another checkout in turns
on_gpu/     what runs there: PyTorch and the exported files alone
"""
