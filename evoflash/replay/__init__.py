"""Search spaces that were measured once, and searches on them without a GPU. Nothing is compiled or timed.

recorded_space  a recorded space in memory
kernel_tuner    Kernel Tuner's files: caches in and out, T4 results in
evaluator       the evaluator that looks outcomes up
comparison      strategies compared on a recorded space
"""
