"""All that knows the linear layer of a decoding step: shapes, tensors, arithmetic, what must hold of it.

The rest of evoflash reaches it through evoflash/operation.py alone, by its record `Operation`.

    doors           What exported files say of the linear layer
    e4m3            The 8-bit floats e4m3 as bit patterns, to and from float32
    form            The form of a call of the linear layer
    inputs          The inputs and shapes that find out wrong linear kernels, drawn from a seed of the run
    operation       The linear layer as the rest of evoflash knows it
    portfolio       How a portfolio's dispatcher tells shapes of the linear layer apart
    preflight_runs  The small shapes of a linear kernel's pre-flight, which its tiles, rings and splits make
                    special
    reference       What y = x W^T should be, in fp64, and what honest fp32 arithmetic makes of it
    relations       What must hold between the linear layer's outputs of changed inputs
    workload        Workloads of the linear layer (its shapes), what kernels are compiled for, and their texts
"""
