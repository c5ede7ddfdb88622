"""Times of kernels and of libraries, by the same code for both, and what the times say. Outputs are judged
elsewhere.

    benchmark    Times a kernel, or a library's, on one workload
    clocks       The GPU's clock, throttle reasons, energy counter and UUID, by NVML. Sets no clock, and is
                 never needed
    energy       What a call takes in energy
    intervals    What paired times say
    noise_floor  The noise floor of this machine
    paired       Two contenders timed in pairs until one is clearly faster, neither can be, or the time is up
    protocols    How a workload is timed, for how long, and when to stop
    relative     Times a kernel by its ratio to another one whose time is known
"""
