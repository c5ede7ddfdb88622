"""What kernels compute: a folder for each operation, the only place that knows it, and what must hold of all.

The rest of evoflash asks an operation through the record `Operation` of evoflash/operation.py.

    attention/    All that knows attention
    expectations  The validator's thresholds
"""
