"""All that knows attention: shapes, tensors, arithmetic, and what must hold of its outputs.

The rest of evoflash reaches it through evoflash/operation.py alone, by its record `Operation`.

    abi             The tensors and the argument list of an attention call, for emulator, GPU and exported
                    launcher alike
    exporter        What the host part of an exported attention kernel is made of
    inputs          The inputs and shapes that find out wrong attention kernels, drawn from a seed of the run
    loop            How a kernel's loop over the keys cuts attention's work, for the performance model
    operation       Attention as the rest of evoflash knows it, one record that names what the files of this
                    folder do
    preflight_runs  The small shapes of a kernel's pre-flight, which its tiles, rings and splits make special
    reference       What attention should be, in fp64, and what honest 16-bit arithmetic makes of it
    relations       What must, and must not, change between attention's outputs of changed inputs
    thresholds      Attention's thresholds, read from thresholds.toml, which holds all of them
    workload        Attention's workloads (its shapes), what kernels are compiled for, and their texts
"""
