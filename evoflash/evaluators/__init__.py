"""Evaluators turn a genome into an Evaluation. One measures on the GPU that is here; the other emulates the
kernel and estimates its time.

    pipeline      what both share: genomes prepared in worker processes, in order; duplicates found
    prepare       one genome in a worker process: render, compile, emulate
    emulated      the evaluator without a GPU
    screening     a genome's short way there: screened out by its estimate
    rivals        the best estimates so far, which the next one has to keep up with
    measured      the evaluator on a GPU
    climbs        genomes on their way through it, many at a time
    standing      the best proven kernels so far, which the next one has to keep up with
    machines      where the work is done, as evaluators see it: here, or on a cluster
    cluster       the work done by a Dask cluster: many cores, GPUs, machines
    tasks         what the GPU process is asked of a genome
    estimates     what the performance model says of a prepared genome
    finals_phase  after the loop: the best are checked on hidden shapes, timed again and stored
"""
