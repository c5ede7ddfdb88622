"""CUDA text into something that runs: a cubin for the GPU, a shared library for the emulator. Nothing is
loaded or launched.

    nvrtc     CUDA text -> cubin; needs no GPU
    gxx       the same text -> a library for the emulator, and the emulator's own runtime
    ef_layer  the text of the ef:: layer (device/): what compilers are given, what an export needs of it
"""
