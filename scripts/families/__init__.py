"""Scripts that look at whole kernel families: what they render, which genes change code, what they spill.

unchanged       compares all that users and stored results hang on with a record of an earlier state
sweep           compiles and emulates random genomes of every family
inert_genes     shows for every gene that it changes what runs
clean_runs      runs correct kernels in the emulator: none may draw a report
preflight_cost  CPU seconds of the pre-flight, and its false alarms, over random genomes and compile keys
emulator_cost   CPU seconds and memory of the emulator, for each family
gene_ab         compiles, and on a GPU times, two settings of each technique in genes.toml

gene_rows       reads genes.toml
gene_timing     checks and times two settings in a GPU process
draws           draws compile keys and valid genomes from a seed
in_flight       runs bounded calls in a process pool
"""
