"""Evaluators turn a genome into an Evaluation. One measures on the GPU that is here; the other emulates the
kernel and estimates its time.

    climbs     Genomes on their way through compilation, screen, pre-flight and proof, many at a time
    cluster/   Many cores, many GPUs, many machines
    emulated   Evaluates without a GPU: correctness by the emulator, time by the performance model, always an
               estimate
    estimates  What the performance model says of a prepared genome, one estimate for each workload
    finals     The last phase of a measured search
    machines   Where an evaluator's work is done
    measured   Evaluates on the GPU that is present
    pipeline   What both evaluators share
    prepare    The rungs that need no GPU: render, compile, emulate one genome for every compile key of a
               problem
"""
