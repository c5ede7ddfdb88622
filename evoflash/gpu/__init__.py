"""The only way to the GPU, for launches, checks, timing and other libraries' kernels. Proposes nothing.

The modules beside the folders launch and compare, and judge nothing; process/ holds what runs in the process
that has the GPU, and gives verdicts.

    arena        Device memory between guards, and one launch on it that is searched for stray writes
    baselines/   Attention of other libraries, timed by the same code on the same memory as the candidates
    batch        Many launches of a candidate, enqueued together on slabs of memory, and waited for once
    comparisons  Outputs and memory compared on the device, many at once
    driver       Tensor maps for a GPU, encoded by its driver
    launcher     The door to the GPU: which one is present, loading and launching a cubin, waiting for it
    memory       Device memory
    process/     What runs in the process that holds the GPU: a candidate's checks and its timing, and such
                 processes
    sharing      Lets processes share a GPU: while one of them times a kernel, none of the others launches any
    timing/      Times of kernels and of libraries, by the same code for both, and what the times say
"""

# Users' files import these from here; they live in evoflash.specs (an alias for one release).
from evoflash.specs import known_gpus as known_gpus
from evoflash.specs import load_gpu as load_gpu
