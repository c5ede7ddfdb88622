"""Conformance: the same small kernels in the emulator and on a GPU, for every case of device/primitives.toml.
Where the two disagree, one of them is wrong.

    arithmetic  Trials of arithmetic on one thread's registers
    cases       What conformance is made of, as records
    run         Conformance of the emulator with the GPU of this machine, by primitive
    snippets    Kernels made of snippets (kernels/threads.toml and memory.toml), one for each case
    sweep       Runs all of conformance for one GPU, modules in processes of their own
    tma         Trials of TMA's boxes
    wgmma       Trials of wgmma
    worker      Runs one module's trials in this process and writes a journal of what became of each
"""
