"""What outcomes teach: the model that `surrogate` is made of, the effects of genes. Proposes nothing.

features          genomes as rows of numbers
gaussian_process  what outcomes say of genomes that were not tried
earlier           outcomes on near problems, brought to this one
preference        what the model is taught, and which of many genomes it would try next
neighbourhood     genomes that differ in one gene, in two or in a block
offers            the genomes that a model is asked about
gene_effects      what outcomes say of single genes, for operators and for `evoflash insights`
"""
