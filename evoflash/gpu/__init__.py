"""The only way to the GPU, for launches, checks, timing and other libraries' kernels. Proposes nothing.

The modules beside the folders launch and compare, and judge nothing; process/ holds what runs in the process
that has the GPU, and gives verdicts.

    arena        Device memory between guards, and one launch on it that is searched for stray writes
    baselines/   Attention of other libraries, timed by the same code on the same memory as the candidates
    batch        Enqueues many launches of a candidate together and waits for them once
    comparisons  Compares outputs and memory on the device, many at once
    driver       Tensor maps and special launches, for which CuPy has no call, by evoflash.runtime's binding
                 of the driver
    launcher     Finds the GPU that is present, loads a cubin, launches it and waits
    layout       How a tensor lies in memory, dense or with other axes in front and gaps between its rows
    memory       Device memory between bands of random bytes that must stay as they are
    process/     What runs in the process that holds the GPU, which is checks and timing, and the worker that
                 asks for it
    sharing      Lets processes share a GPU, so that while one times a kernel, none of the others launches any
    timing/      Times kernels and libraries by the same code, and tells what the times say
"""

# Users' files import these from here; they live in evoflash.specs (an alias for one release).
from evoflash.specs import known_gpus as known_gpus
from evoflash.specs import load_gpu as load_gpu
