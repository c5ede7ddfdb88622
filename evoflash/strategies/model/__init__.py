"""The model behind `surrogate`, and the effects of genes, both learnt from outcomes. Proposes nothing.

earlier           Outcomes of earlier searches on near problems, as a model may use them
features          Turns genomes into rows of numbers between which distances mean something
gaussian_process  A Gaussian process on rows of features, and which of many rows it would try next
gene_effects      How much faster each value of a gene makes kernels, and which values always fail
offers            Offers a model genomes to judge, those near the best and some far away
"""
