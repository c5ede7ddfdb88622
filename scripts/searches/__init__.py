"""Searches beside their control arms, and first looks at ideas. `lattice` needs no GPU.

    arms            a search and a random search at equal budget, then both winners in turns with libraries
    checkouts       two checkouts search the same problem in turns: what each finds, how long each rung takes
    lattice         some genes and values of a family on one problem: its valid genomes, counted
    record_lattice  all genomes of a lattice timed on the GPU, as a recorded space
    brief_timing    one genome in the GPU process: a first look and a few samples
    ship            the past searches that ship with evoflash, from databases and recorded spaces
    stages          where the seconds of a search go, and how busy the GPU is
    transfer        a kernel that was found without a GPU beside the winner of a measured search
    variants        checks and times a list of genomes in turns with cuDNN

records/again holds second runs of searches whose first ones are shown in the README.
"""
