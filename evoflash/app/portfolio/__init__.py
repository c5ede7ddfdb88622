"""`evoflash portfolio`: a few kernels for many shapes, with the rule that says which computes what.

    candidates  Which kernels a portfolio is chosen from
    choice      Which kernels of a table to keep, at most k, with the least regret over the mix
    measuring   Kernels checked and timed on this machine's GPU: what is asked of the GPU process, and when
    on_gpu      What the GPU process does for a portfolio
    run         A portfolio from a file of shapes
    session     What fills a table
    table       How long each kernel takes on each shape of a mix, and the JSON file that keeps it
"""
