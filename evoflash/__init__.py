"""evoflash evolves fused-attention CUDA kernels: mutate, compile, check, time, keep."""

import os

# Its threads spin while they wait: on the small products of the reference they cost three times the CPU of
# the work itself, and several worker processes run side by side anyway. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
