"""Searches on recorded search spaces, whose kernels were measured once. Compiles and times nothing.

No GPU is needed.

    benchmark        Runs strategies and rivals on recorded spaces, many seeds each, in parallel processes
    comparison       Compares search strategies on a recorded space, without a GPU, by their curves and a
                     score
    foreign_records  Opens the files of other tuners and turns their configurations into genomes
    foreign_times    Asks each number of another tuner's record for its name, its unit and its direction
    kernel_tuner     Reads and writes Kernel Tuner's caches, and finds out which kind of record a file is
    recorded_space   A recorded search space, and the evaluator that looks outcomes up in it
    t4_results       Writes a search's evaluations as T4 results, and reads those of any tuner as a recorded
                     space
"""
