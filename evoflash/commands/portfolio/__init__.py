"""`evoflash portfolio`: a few kernels for many shapes, with the rule that says which computes what.

command     the command's options
run         table, choice, rule and borders, one after the other
mix         the file of shapes and weights
candidates  which kernels are tried
building    them compiled, and emulated where there is no GPU
session     rows of the table filled in
measuring   what is asked of the GPU process, and when
on_gpu      what the GPU process does
estimating  times by the performance model
table       the times, and the file that keeps them
choice      which kernels to keep
rule        what the dispatcher goes by, and where it changes its mind
served      what each shape gets, and what that costs
package     a portfolio as what evoflash/exports/portfolio/ writes
report      a portfolio as tables or JSON
"""
