"""All that knows attention of a few query rows on keys and values in pages, as inference engines call it.

The rest of evoflash reaches it through evoflash/operation.py alone, by its record `Operation`.

    check_shapes    The shapes that kernels of paged attention are checked on, the same for all or drawn from
                    a seed
    doors           What exported files say of paged attention
    form            The form of a call of paged attention
    inputs          The inputs that find out wrong kernels of paged attention, drawn from a seed of the run
    operation       Paged attention as the rest of evoflash knows it
    preflight_runs  The small shapes of a kernel's pre-flight, which its tiles, rings, splits and pages make
                    special
    reference       What paged attention should be, in fp64, and what honest 16-bit arithmetic makes of it
    relations       What must hold between paged attention's outputs of changed inputs
    workload        Workloads of paged attention (its shapes), what kernels are compiled for, and their texts
"""
