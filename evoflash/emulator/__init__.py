"""The CPU emulator: it runs a kernel that g++ built from the same text as the GPU's, thread by thread, and
reports races, deadlocks and accesses out of bounds. Its runtime is C++ and lies in `emu/`.

    call        One call of a built kernel in the emulator
    launch      The CPU emulator
    preflight   Runs a rendered kernel in the CPU emulator on small adversarial shapes
    tensor_map  Tensor maps for the emulator, under the rules that cuTensorMapEncodeTiled has for a GPU's
"""
