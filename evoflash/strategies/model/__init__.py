"""The model behind `surrogate`, and the effects of genes, both learnt from outcomes. Proposes nothing.

gaussian_process  A Gaussian process on genomes, and which of many it would try next
gene_effects      How much faster each value of a gene makes kernels, and which values always fail
offers            Offers a model genomes to judge, those near the best and some far away
"""
