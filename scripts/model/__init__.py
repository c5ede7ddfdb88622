"""How well the performance model ranks kernels whose times are known.

record_space  Records a sample of a family's space
report        How well the performance model ranks recorded genomes, and (--fit) the constants that fit them
              best
space_file    The file of a recorded space
"""
