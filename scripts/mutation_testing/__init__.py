"""Mutation testing: the emulator must notice a kernel whose synchronisation or bounds were weakened.

equivalents  Reads equivalent_mutants.toml
examine      What becomes of one mutant
grid         Which kernels mutation testing looks at
mutants      Finds the synchronisation and the bounds predicates in a rendered kernel and weakens them, one at
             a time
run          Mutation testing
"""
