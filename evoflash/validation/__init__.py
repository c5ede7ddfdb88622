"""Whether outputs are right. Everything here is NumPy on the host: who ran the kernel, and where, is not
known.

    correctness     all checks of one kernel on one workload
    cases           test inputs with their right answers, each computed once
    shared_values   what several processes want, made once, in files that are mapped
    validator       outputs against the reference
    expected        the right outputs, and by what their errors are measured
    thresholds      the limits of errors, from the operation's file
    device_reference  a record: the kernel that computes what is right at the benchmark's shape
    relation        records: what must hold between outputs of changed inputs
    metamorphic     checks without a reference that every operation shares
    wrong_elements  where an output is wrong, in words
    bits            16-bit floats as bit patterns
    in_parts        large arrays made by several threads
"""
