"""Our kernels against the libraries, cuDNN, FlashAttention and Triton: what docs/h200.md shows.

run              checks and times our fastest kernel of each row in turns with the libraries
holdout          searches problems that no row is of, and compares the winners likewise
without_archive  searches rows without the archive, and compares the winners with the archive's kernels

rows             the rows, and which kernels of ours may stand for each
timing           what is done in a GPU process
ratios           what a record says: ratios, targets, the mean
read_only        a contender that only reads K and V (read_only.cu)
"""
