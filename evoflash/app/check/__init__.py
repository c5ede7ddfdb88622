"""Finds what a kernel does wrong, by running it in the emulator under many schedules.

findings    Merges the reports of many runs into findings about a kernel, and picks out slow accesses
lint        What g++, NVRTC and ptxas say about a kernel, as findings
own_kernel  Reads a user's .cu file and runs its launch in the emulator
runs        Runs a kernel under many schedules in the emulator and gathers what is wrong with it
subject     What `evoflash check` is to check, as texts and launches
"""
