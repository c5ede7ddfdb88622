"""All that knows attention: shapes, tensors, arithmetic, and what must hold of its outputs.

The rest of evoflash reaches it through operation/registry.py alone, by the record in operation/.

    abi             The tensors and the argument list of an attention call
    exporter        What the host part of an exported attention kernel is made of
    inputs          Inputs that find out wrong attention kernels
    loop            How a kernel's loop over the keys cuts attention's work, for the performance model
    operation       Attention as the rest of evoflash knows it
    preflight_runs  The pre-flight of a kernel
    reference       What attention should be, in fp64, and what honest 16-bit arithmetic makes of it
    relations       What must, and must not, change between attention's outputs of changed inputs
    thresholds      Attention's thresholds, from thresholds.toml, which holds all of them
    workload        Attention's workloads (its shapes), what kernels are compiled for, and their texts
"""
