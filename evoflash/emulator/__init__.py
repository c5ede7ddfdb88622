"""The CPU emulator runs a kernel thread by thread and reports races, deadlocks and bad accesses.

The kernel was built by g++ from the same text as the GPU's. The emulator's runtime is C++ and lies in `emu/`.
It tells nothing of a kernel's time but counts.

    call        Calls a built kernel in the emulator, with its tensors, arguments and launches
    launch      Runs one launch of a kernel that g++ built, with every check on
    preflight   Runs a rendered kernel in the CPU emulator on small shapes made to break it
    tensor_map  Makes tensor maps for the emulator, under the rules that cuTensorMapEncodeTiled has on a
                device
"""
