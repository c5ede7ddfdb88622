"""Conformance: the same small kernels in the emulator and on a GPU, for every case of device/primitives.toml.
Where the two disagree, one of them is wrong.

    run          `evoflash doctor --conformance`
    primitives   the table of the ef:: layer's primitives as records
    cases        kernels, their launches and results as records
    snippets     kernels from kernels/threads.toml and memory.toml, one for each case
    arithmetic   cases of arithmetic on one thread's registers
    tma          cases of TMA's boxes
    wgmma        cases of wgmma
    on_emulator  a case in the emulator
    on_gpu       a case on the GPU
    worker       one module's cases in a process of its own
    sweep        all of it, and what became of each case
    judge        whether results agree
    report       the results as lines and as JSON
"""
