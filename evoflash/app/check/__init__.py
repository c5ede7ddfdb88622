"""Finds what a kernel does wrong, by running it in the emulator under many schedules.

findings    Findings about a kernel
lint        What g++, NVRTC and ptxas say about a kernel, as findings
own_kernel  One launch of a kernel with arguments of its own in the emulator
runs        Runs a kernel under many schedules in the emulator, and gathers what is wrong with it
subject     What `evoflash check` is to check
"""
