"""What the performance model is worth beside measured times.

counts      A kernel's build and what the emulator counts of it, from the cache where both were made before
error       Makes evoflash/estimate_error.toml
time_again  Times anew, on the GPU here, the kernels of the record whose family has another text since
"""
