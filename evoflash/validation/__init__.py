"""Whether outputs are right. Everything here is NumPy on the host: who ran the kernel, and where, is not
known.

    inputs       inputs that find out wrong kernels, drawn from a seed
    reference    attention in fp64, and what honest 16-bit arithmetic makes of it
    thresholds   the limits of errors, from thresholds.toml
    validator    outputs against the reference
    metamorphic  checks that need no reference
    correctness  all checks of one kernel on one workload
"""
