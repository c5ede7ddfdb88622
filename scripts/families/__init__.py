"""Scripts that look at whole kernel families: what they render, which genes change code, what they spill.

draws           Draws compile keys and valid genomes from a seed, for scripts that look at whole families
gene_rows       Reads genes.toml
in_flight       Runs bounded calls in a process pool, so many in flight at a time
inert_genes     Shows for every gene that it changes what runs
preflight_cost  What the pre-flight costs, in CPU seconds, and its false alarms
unchanged       Shows that nothing a user or a stored result hangs on has changed against an earlier commit
"""
