"""Hardware counters of one launch, as NVIDIA's Nsight Compute reads them, and what they say binds a kernel.

ncu       Starts Nsight Compute, and reads what it prints
limits    Which limit binds a kernel, and how far from it it is
one_call  What runs under Nsight Compute: one launch at the timed size
"""
