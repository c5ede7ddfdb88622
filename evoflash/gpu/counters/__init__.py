"""Hardware counters of one launch, as NVIDIA's Nsight Compute reads them, and what they say binds a kernel.

ncu       Runs Nsight Compute's `ncu` on one call of a kernel, and reads what it prints
one_call  What runs under Nsight Compute
"""
