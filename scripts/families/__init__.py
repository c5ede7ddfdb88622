"""Scripts that look at whole kernel families: what they render, which genes change code, what they spill.

clean_runs      Runs correct kernels in the emulator over a grid of everything that may vary
draws           Draws compile keys and valid genomes from a seed, for scripts that look at whole families
emulator_cost   What the emulator costs
gene_ab         Checks and times the two settings of each technique in genes.toml on a GPU; writes no page
gene_rows       Reads genes.toml
gene_timing     Checks the two sides of a row of genes.toml in a GPU process and times them in turns
in_flight       Runs bounded calls in a process pool, so many in flight at a time
inert_genes     Shows for every gene that it changes what runs
preflight_cost  What the pre-flight costs, in CPU seconds, and its false alarms
sweep           Compiles and emulates uniform valid genomes of whole families
unchanged       Shows that nothing a user or a stored result hangs on has changed against a record of an
                earlier state
"""
