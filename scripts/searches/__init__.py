"""Searches beside their control arms, and first looks at ideas. Needs a GPU, but for `replayed`.

    arms        a search and a random search at equal budget, then both winners in turns with the libraries
    checkouts   two checkouts search the same problem in turns: what each finds, how long each rung takes
    replayed    search strategies on recorded spaces, many seeds each
    stages      where the seconds of a search go, and how busy the GPU is
    transfer    a kernel that was found without a GPU beside the winner of a measured search
    variants    checks and times a list of genomes in turns with cuDNN

records/again holds second runs of searches whose first ones are shown in the README.
"""
