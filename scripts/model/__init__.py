"""What the performance model is worth beside measured times.

counts  A kernel's build and what the emulator counts of it, from the cache where both were made before
error   Makes evoflash/estimate_error.toml
"""
