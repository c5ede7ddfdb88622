"""The database: runs, evaluations, baselines and lineage. It is the one truth from which a search resumes.

store      what the program asks of it, each change in one transaction
queries    the statements on one evaluation and what hangs on it
rows       records into rows and back
schema     the tables, and the leaderboard's query
database   opening, upgrading (../../db), transactions
postgresql how sessions of a PostgreSQL server are opened
advice     what a database says when it refuses, in one line
integrity  what is wrong with a database
cost       what a run took of GPU and CPU
standing   where runs stand, and who works on them
run_edits  runs renamed, taken out, brought in from another database
run_locks  which process works on a run; session_locks: on a PostgreSQL server
"""
