"""The model behind `surrogate`, and the effects of genes, both learnt from outcomes. Proposes nothing.

earlier           Outcomes of earlier searches on near problems, as a model may use them
features          Genomes as rows of numbers between which distances mean something
gaussian_process  A Gaussian process on rows of features
gene_effects      What a search has learnt of its genes
offers            Which genomes a model is asked about
"""
