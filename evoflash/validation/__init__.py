"""Whether outputs are right. Everything here is NumPy on the host: who ran the kernel, and where, is not
known.

    bits            16-bit floats as bit patterns
    expected        the right outputs, as an operation states them
    thresholds      the limits of errors, from an operation's file
    validator       outputs against the reference
    wrong_elements  where an output is wrong, in words for people
    metamorphic     checks that need no reference, of any operation
    correctness     all checks of one kernel on one workload
"""
