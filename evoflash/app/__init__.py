"""Use cases: what a command, a Python call or another interface asks for, one file or folder each.

Nothing here prints or parses a command line. A use case returns a record, which views/ turns into words;
what is to be said on the way goes through notices.

    baselines    Times the baselines of a problem alone, in turns, and stores their rows
    best         What `evoflash best` answers
    catalogue    What can be named in an option
    check/       `evoflash check`
    compare      `evoflash compare`
    dashboard    A run as an Optuna study in a file, for whatever reads studies, and optuna-dashboard on it
    doctor       Examines the machine
    evaluate     `evoflash evaluate` and `remeasure`
    export       `evoflash export`
    insights     What a run brought, by operator, bottleneck, lineage and value of a gene, in numbers and in
                 sentences
    known        Kernels that are known, by the first digits of their id, and what a run failed at
    ladder       `evoflash ladder`
    leaderboard  The leaderboard of one database or several, as db/leaderboard.sql ranks it, and its Pareto
                 fronts
    mix          The shapes that a portfolio is chosen for, and what each of them counts, from a file
    new_files    What `evoflash new` writes, and where
    portfolio/   `evoflash portfolio`
    recordings   Recorded spaces
    report/      `evoflash report`
    runs         The runs of a database
    search/      `evoflash search`
    verify/      `evoflash verify`
"""
