"""Mutation testing: the emulator must notice a kernel whose synchronisation or bounds were weakened.

run             mutates the families' kernels and emulates every mutant
merge           makes one record of several

grid            which genomes are looked at, and the mutants of their texts
mutants         finds what can be weakened in a rendered text
examine         what becomes of one mutant
equivalents     reads equivalent_mutants.toml: reviewed mutants that are no faults, with the reasons
"""
