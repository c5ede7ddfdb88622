"""Searches on recorded search spaces, whose kernels were measured once. Compiles and times nothing.

benchmark       Contenders on recorded spaces, many seeds each, in parallel processes
comparison      Search strategies compared on a recorded space, without a GPU: their curves and what they
                score
contenders      Who is compared on recorded spaces
kernel_tuner    Kernel Tuner's files
recorded_space  Recorded search spaces
spaces/         Two small recorded spaces that are shipped
"""
