"""The database of runs, evaluations, baselines and lineage, the one truth from which a search resumes.

<<<<<<< HEAD
database   The database
integrity  What is wrong with a database
locks      Which session of a PostgreSQL server works on a run
rows       Records as rows of the database and back
run_edits  Runs renamed, taken out, brought in from another database
schema     The tables, their revision and the leaderboard's query
standing   Where runs stand
store      The store
=======
    database   Opens and upgrades the database, and makes transactions
    integrity  Finds what is wrong with a database
    locks      Locks that say which process, or which session of a server, works on a run
    rows       Turns records into rows of the database and back
    run_edits  Renames runs, takes them out or brings them in from another database
    schema     The tables, their revision and the leaderboard's query
    standing   How far the runs of a database are, how fast, what they took and who works on them
    store      The store of runs, evaluations, baselines and lineage, the one truth from which a search
               resumes
>>>>>>> docs

    database   Opens and upgrades the database, and makes transactions
    integrity  Finds what is wrong with a database
    locks      Locks that say which process, or which session of a server, works on a run
    rows       Turns records into rows of the database and back
    run_edits  Renames runs, takes them out or brings them in from another database
    schema     The tables, their revision and the leaderboard's query
    standing   How far the runs of a database are, how fast, what they took and who works on them
    store      The store of runs, evaluations, baselines and lineage, the one truth from which a search
               resumes
"""
