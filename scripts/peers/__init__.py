"""Our kernels against the libraries, cuDNN, FlashAttention and Triton: what docs/h200.md shows.

found               Rows of records out of what `evoflash search --json` answered, and its database
holdout             Searches problems that no row and no archived kernel is of, then compares the winners with
                    the libraries
ratios              What a record of run.py says
read_only           A contender that only reads K and V: the time that the memory's bandwidth allows a
                    decoding step
rows                The rows of records/anchors-h200.json, which kernels of ours may stand for each, and who
                    shares a process
run                 Our fastest kernel for each row of the H200 anchors against the libraries
through_flashinfer  Times exported kernels of the linear layer through FlashInfer's own function, beside
                    FlashInfer's kernels
timing              What run.py does in a GPU process
"""
