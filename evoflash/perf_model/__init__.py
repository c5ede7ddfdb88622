"""The performance model, which estimates a kernel's time from counters and a data sheet. Measures nothing.

It takes the emulator's counters, ptxas' figures and the GPU's data sheet. Its constants, each with its
source, are in constants.toml.

    estimate  Estimates a candidate's time from emulator counters, ptxas figures and a GpuSpec
    schedule  How long a step of a kernel's warps takes in cycles, and a launch's CTAs on a GPU's slots
"""
