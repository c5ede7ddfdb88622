"""Searches on recorded search spaces, whose kernels were measured once. Compiles and times nothing.

No GPU is needed.

    benchmark       Runs strategies and rivals on recorded spaces, many seeds each, in parallel processes
    comparison      Compares search strategies on a recorded space, without a GPU, by their curves and a score
    kernel_tuner    Reads and writes Kernel Tuner's files, which are caches and T4 results
    recorded_space  A recorded search space, and the evaluator that looks outcomes up in it
"""
