"""What the validator's thresholds accept and reject, shown on real kernels.

adversary    Single edits in real kernels, each wrong on purpose
batch        Verdicts of a batch of launches beside those of launches one by one, and the seconds that
             each take
calibrate    Measures what honest kernels use of each gate of the validator
exports      Exported files as programs of their own on the GPU here
honest       Is every honest kernel accepted? All families, over lengths and seeds, pairwise over what
             else varies
sensitivity  What single faults do to a real kernel's output, what allclose(1e-2) says of it, and which
             gate says more
subjects     Kernels of the shipped families, drawn, built and run
"""
