"""Whether outputs are right. Everything here is NumPy on the host: who ran the kernel, and where, is not
known.

    correctness     all checks of one kernel on one workload
    validator       outputs against the reference
    expected        the right outputs, as the validator needs them
    metamorphic     checks that need no reference
    thresholds      the limits of errors, from an operation's thresholds.toml
    wrong_elements  where an output is wrong, in words
    bits            16-bit floats as bit patterns
"""
