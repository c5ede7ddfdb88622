"""Times kernels and libraries by the same code, and tells what the times say. Judges no output.

benchmark    Measures one contender, a kernel or a library's, on one workload
noise_floor  How far apart two copies of one kernel seem to be on this machine, its noise floor
paired       Times two contenders in pairs until one is clearly faster, neither can be, or the time is up
protocols    How a workload is timed, for how long, and when to stop
relative     Times a kernel by its ratio to another one whose time is known
"""
