"""What the validator's thresholds accept and reject, shown on real kernels.

adversary       Single edits in real kernels, each wrong on purpose
calibrate       Measures what honest kernels use of each gate of the validator
exports         Exported files as programs of their own on the GPU here
fuzz_readers    Fuzzes readers of files
honest          Is every honest kernel accepted? All families, over lengths and seeds, pairwise over what else
                varies
public_reports  Tries on evoflash what public reports say of other tools, by public_reports.toml
source_edits    Offers the frauds of the self-test to `evoflash evaluate`, each as an edit of an exported
                kernel
subjects        Kernels of the shipped families, drawn, built and run
"""
