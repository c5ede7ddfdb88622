"""The database of runs, evaluations, baselines and lineage, the one truth from which a search resumes.

database    Opens and upgrades the database, and makes transactions
exchanges   Keeps and reads what a run asked of a language model and what it was answered
integrity   Finds what is wrong with a database
locks       Locks that say which process, or which session of a server, works on a run
profiles    Keeps and reads the hardware counters of kernels, beside the run that evaluated them
rows        Turns records into rows of the database and back
run_edits   Renames runs, takes them out or brings them in from another database
run_status  How far the runs of a database are, how fast, what they took and who works on them
schema      The tables, their revision and the leaderboard's query
store       The store of runs, evaluations, baselines and lineage, the one truth from which a search resumes
"""
