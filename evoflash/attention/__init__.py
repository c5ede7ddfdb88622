"""All that knows attention: shapes, tensors, arithmetic, and what must hold of its outputs.

The rest of evoflash reaches it through operation/registry.py alone, by the record in operation/.

    operation     the record that names what the other files do
    workload      shapes, compile keys, their names and texts
    abi           tensors and the argument list of a call
    reference     what is right, in fp64, and what honest 16-bit arithmetic makes of it
    device_reference  the same on a GPU, at the benchmark's shape (reference.cu)
    inputs        inputs that find out wrong kernels
    relations     what must hold between outputs of changed inputs
    thresholds    how far off a kernel may be (thresholds.toml)
    shapes        the shapes that kernels are checked on, and places in them that inputs single out
    preflight_runs  the shapes of the emulator's pre-flight, from a genome's tiles and rings
    loop          how a kernel's main loop cuts the work, for the performance model
    distance      how far apart two shapes are, for the archive
    exporter      what the host part of an exported kernel is made of
"""
