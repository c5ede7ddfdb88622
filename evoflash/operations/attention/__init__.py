"""All that knows attention: shapes, tensors, arithmetic, and what must hold of its outputs.

The rest of evoflash reaches it through evoflash/operation.py alone, by its record `Operation`.

    check_shapes    The shapes that attention kernels are checked on, the same for all or drawn from a seed
    doors           What exported files say of attention
    forms/          The forms in which kernels take attention's tensors
    inputs          The inputs that find out wrong attention kernels, drawn from a seed of the run
    loop            How a kernel's loop over the keys cuts attention's work, for the performance model
    operation       Attention as the rest of evoflash knows it, one record that names what the files of this
                    folder do
    portfolio       How a portfolio's dispatcher tells attention's shapes apart
    preflight_runs  The small shapes of a kernel's pre-flight, which its tiles, rings and splits make special
    reference       What attention should be, in fp64, and what honest 16-bit arithmetic makes of it
    relations       What must, and must not, change between attention's outputs of changed inputs
    workload        Attention's workloads (its shapes), what kernels are compiled for, and their texts
"""
