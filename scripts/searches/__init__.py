"""Searches beside their control arms.

arms            Search and its control arm at equal budget on one problem, then both winners and the
                baselines in turns
brief_timing    One genome in a GPU process
checkouts       Two checkouts search the same problem in turns on one GPU: what each finds, and how long
                each rung takes
lattice         A lattice
record_lattice  Records a lattice on the GPU that is here
ship            Writes the past searches that ship with evoflash, from databases of searches and from
                recorded spaces
stages          Where the seconds of `evoflash search` go, by stage and by rung, and how busy the GPU is
                meanwhile (dmon)
transfer        How good is a kernel that was found without a GPU? Its time beside what a search on the
                GPU finds
variants        Checks and times the genomes of a list, in turns with cuDNN, and ranks them
"""
