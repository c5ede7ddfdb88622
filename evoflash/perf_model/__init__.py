"""The performance model: an estimate of a kernel's time from the emulator's counters, ptxas' figures and the
GPU's data sheet. Its constants, each with its source, are in constants.toml; nothing is measured.

    estimate        the terms of a kernel's time, and their sum
    warp_path       the slowest path through a step of warps
    warpgroup_path  the same for a warpgroup of a Hopper kernel
    block_schedule  how long a GPU's slots take for the blocks of a launch
"""
