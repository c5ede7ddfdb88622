"""`evoflash ladder`: eight named kernels, from scalar code to tensor cores, each checked and timed.

command     the command's options
steps       the steps (they stand in steps.toml), evaluated one after the other
sources     the steps' CUDA and what each changes, for --show
report      the results as a table, JSON or a bar chart
"""
