"""The CPU emulator: it runs a kernel that g++ built from the same text as the GPU's, thread by thread, and
reports races, deadlocks and accesses out of bounds. Its runtime is C++ and lies in `emu/`.

    launch      one launch of a built kernel with every check on
    call        one call of an operation: tensors, arguments and launches
    tensor_map  tensor maps, under the rules of the GPU's driver
    preflight   a rendered kernel on small adversarial shapes, before a GPU sees it
"""
