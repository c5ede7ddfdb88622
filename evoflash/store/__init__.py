"""The database of runs, evaluations, baselines and lineage, the one truth from which a search resumes.

database   The database
integrity  What is wrong with a database
locks      Which session of a PostgreSQL server works on a run
rows       Records as rows of the database and back
run_edits  Runs renamed, taken out, brought in from another database
schema     The tables, their revision and the leaderboard's query
standing   Where runs stand
store      The store
"""
