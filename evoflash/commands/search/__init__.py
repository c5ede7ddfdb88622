"""`evoflash search`: strings become a plan, a plan becomes a run in the store. The loop: evoflash/search.py.

command     the command's options
plan        what a search is before anything has run: problem, GPU, families, starts
limits      when a search ends: evaluations, time, nearness to the physical floor
run         a plan run to its budget, or until Ctrl-C; its dry run
limits      when a search ends
transfer    what earlier searches on near problems teach the next
recorded    a search on a recorded space (`--evaluator replay`)
"""
