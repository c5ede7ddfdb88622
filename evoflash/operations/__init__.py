"""What kernels compute, a folder for each operation, and what must hold of all of them.

An operation's folder is the only place that knows it. The rest of evoflash asks an operation through the
record `Operation` of evoflash/operation.py.

    attention/     All that knows attention
    call_form      The records that the form of a call is made of, whatever the operation
    expectations   Makes the records of right outputs, and reads the thresholds of a file
    linear/        All that knows the linear layer of a decoding step
    paged/         All that knows attention of a few query rows on keys and values in pages, as inference
                   engines call it
    problem_sizes  How large a problem may be, and how far apart two sizes are, whatever the operation
"""
