"""`evoflash check`: what a kernel does wrong, found by running it in the emulator under many schedules.

    findings    Findings about a kernel
    lint        What g++, NVRTC and ptxas say about a kernel as findings, and the ef:: way for what they do
                not know
    own_kernel  A user's own .cu
    runs        Runs a kernel under many schedules in the emulator, and gathers what is wrong with it
    subject     What `evoflash check` is to check, as texts and launches
"""
