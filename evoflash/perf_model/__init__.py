"""The performance model: an estimate of a kernel's time from the emulator's counters, ptxas' figures and the
GPU's data sheet. Its constants, each with its source, are in constants.toml; nothing is measured.

    estimate  Estimates a candidate's time from emulator counters, ptxas figures and a GpuSpec
    schedule  What one warpgroup of a Hopper kernel does in a step, as a chain of cycles
"""
