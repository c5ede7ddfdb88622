"""What the validator's thresholds accept and reject, shown on real kernels.

    adversary       single edits that somebody planted in real kernels: which rung notices each, without a GPU
    calibrate       what honest kernels use of each threshold: the record that justifies thresholds.toml
    honest          every honest kernel is accepted, over lengths and seeds
    sensitivity     single faults in a real kernel, and which threshold rejects them
    exports         exported files as programs of their own: built by nvcc, checked and timed on the GPU
    batch           verdicts of a batch of launches beside those of launches one by one, and the time of each

    subjects        the kernels that these look at: drawn, built and run
    single_edits    a third set of such edits, kernels and patches as in evoflash/selftest/frauds
    fourth_set      a fourth one, 37 edits in eight kernels with genomes that no set had
    fifth_set       a fifth one, 36 edits in five more such kernels

records/ also holds what has no script: runs of `evoflash doctor --self-test`, of the tests that need a GPU,
of the GPU's conformance; and tma-probe-h200.jsonl, whose script is no longer kept.
"""
