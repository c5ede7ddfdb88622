"""`evoflash search`: strings become a plan, a plan becomes a run in the store. The loop: evoflash/search.py.

command     the command's options
plan        what a search is before anything has run: problem, GPU, families, starts
best_chart  the best so far as a small chart of characters
limits      when a search ends: evaluations, time, nearness to the physical floor
meter       what a command takes of GPU and CPU, charged to its run
one         one search from options to its result
many        several problems, one after the other
side_by_side  several at a time
many_report  what came of them: a table, JSON, a line for each
run         a plan run to its budget, or until Ctrl-C; its dry run
machines    where a search's work is done: here, in a private cluster, on a scheduler's workers
final_pairs  the winner's pairs of the final timing, as text beside the run
transfer    what earlier searches on near problems teach the next
recorded    a search on a recorded space (`--evaluator replay`)
"""
