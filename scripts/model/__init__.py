"""How well the performance model ranks kernels whose times are known.

record_space    records a sample of a family's space on a GPU: builds, profiles and short timings
report          ranks recorded genomes by the model, and fits the model's constants to them

space_file      a recorded space's file: profiles as JSON and back
"""
