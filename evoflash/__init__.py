"""evoflash evolves fused-attention CUDA kernels: mutate, compile, check, time, keep."""

__version__ = "0.1.0"
