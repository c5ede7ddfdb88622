"""Times of kernels and of libraries, by the same code for both, and what the times say. Outputs are judged
elsewhere.

    protocols        how a workload is timed, for how long, and when to stop
    benchmark        one contender on one workload: its samples and its timing
    clocks           the GPU's clock and throttle reasons meanwhile, and its energy counter
    energy           what a call takes in energy
    comparison       contenders in turns; which is faster; a time that cannot be
    pair             what came out of such a comparison, as a record
    abba             two contenders in blocks of A B B A
    relative         a kernel's time by its ratio to one whose time is known
    gpu_factors      how fast each of several GPUs is, by the known one's times
    sequential_test  blocks until one of the two is clearly faster, or neither can be
    intervals        the statistics of paired times
    noise_floor      how far apart two copies of one kernel seem to be on this machine
    environment      the versions that are stored beside every run
"""
