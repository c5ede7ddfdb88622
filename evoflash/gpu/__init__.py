"""The only way to the GPU, for launches, checks, timing and other libraries' kernels. Proposes nothing.

    arena        Device memory with guards around it, and one launch on it that is searched for stray writes
    baselines/   Kernels of other libraries, timed by the same code on the same memory as the candidates
    batch        Many launches of a candidate, enqueued together on slabs of memory, and waited for once
    comparisons  Outputs and memory compared on the device, many at once
    driver       What of the CUDA driver CuPy has no call for, by evoflash.runtime's binding
    launcher     The door to the GPU: which one is present, loading and launching a cubin, waiting for it
    layout       How a tensor lies in memory
    memory       The scratch memory that kernels of one stream share, between guards
    process/     A kernel's checks as one batch of launches, compared on the device
    sharing      Lets processes share a GPU: while one of them times a kernel, none of the others launches any
    timing/      Times of kernels and of libraries, by the same code for both, and what the times say
"""

# Users' files import these from here; they live in evoflash.specs (an alias for one release).
from evoflash.specs import known_gpus as known_gpus
from evoflash.specs import load_gpu as load_gpu
