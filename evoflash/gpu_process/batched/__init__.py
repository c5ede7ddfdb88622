"""A kernel's checks as one batch of launches, compared on the device.

trials         which launches check a kernel on a small workload, and what must hold of their outputs
trial_batch    those launches in one batch, and the verdicts on what the device found
device_rights  what outputs should be at the benchmark's shape, computed on the device
"""
