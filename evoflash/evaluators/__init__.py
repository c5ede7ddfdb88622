"""Evaluators turn a genome into an Evaluation. They choose no genome and store nothing but the last timing.

One measures on the GPU that is here; the other emulates the kernel and estimates its time.

    cluster/   Does an evaluator's work on cores and GPUs of many machines, by Dask
    emulated   Evaluates without a GPU, by the emulator's checks and the performance model's estimate
    finals     The last phase of a search, in which the best kernels face hidden shapes, then baselines
    gpu_tasks  What the GPU is asked about the genomes of a search, and which of its proven kernels each is
               compared with
    measured   Evaluates on the GPU that is present
    pipeline   What both evaluators share, from genomes prepared in worker processes to duplicates
    prepare    Renders, compiles and emulates one genome for every compile key of a problem
"""
