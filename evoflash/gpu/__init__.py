"""The only way to the GPU, for launches, checks, timing and other libraries' kernels. Proposes nothing.

arena        Device memory between guards, and one launch on it that is searched for stray writes
baselines/   Kernels of other libraries, timed by the same code on the same memory as the candidates
batch        Enqueues many launches of a candidate together and waits for them once
comparisons  Compares outputs and memory on the device, many at once
counters     Runs Nsight Compute's `ncu` on one call of a kernel, and reads what it prints
driver       Tensor maps and special launches, for which CuPy has no call, by evoflash.runtime's binding of
             the driver
launcher     Finds the GPU that is present, shares it with other processes, loads a cubin, launches it and
             waits
memory       Device memory
process/     What runs in the process that holds the GPU, which is checks and timing, and the worker that asks
             for it
timing/      Times kernels and libraries by the same code, and tells what the times say
"""

# Users' files import these from here; they live in evoflash.specs (an alias for one release).
from evoflash.specs import known_gpus as known_gpus
from evoflash.specs import load_gpu as load_gpu
