"""Runs the same small kernels in the emulator and on a GPU, and says where the two disagree.

Where they do, one of them is wrong. The cases are those of device/primitives.toml.

    arithmetic  Trials of arithmetic on one thread's registers, element by element over many inputs
    cases       What conformance is made of, as records
    hopper      Trials of what came with Hopper
    run         Says whether the emulator agrees with the GPU of this machine, for `evoflash doctor
                --conformance`
    snippets    Kernels made of snippets (kernels/threads.toml and memory.toml), one for each case
    worker      Runs and judges one module's trials in this process, and writes a journal of what became of
                each
"""
