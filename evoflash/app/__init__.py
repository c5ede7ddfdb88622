"""Use cases: what a command, a Python call or another interface asks for, one file or folder each.

Nothing here prints or parses a command line. A use case returns a record, which views/ turns into words;
what is to be said on the way goes through notices.

    baselines    Times the baselines of a problem alone, in turns, and stores their rows
    best         What `evoflash best` answers
    check/       `evoflash check`
    compare      `evoflash compare`
    dashboard    A run as an Optuna study in a file, for optuna-dashboard and whatever else reads studies
    doctor       Examines the machine
    evaluate     `evoflash evaluate`
    export       Writes a kernel in one of the kinds of evoflash.exports and says what was written
    insights     What a run has learnt in sentences with numbers
    known        Cut out of evoflash.views.kernel
    ladder       `evoflash ladder`
    leaderboard  One leaderboard of several databases
    mix          The shapes that a portfolio is chosen for, and what each of them counts, from a file
    new_files    What `evoflash new` writes, and where
    portfolio/   `evoflash portfolio`
    record       A database's outcomes as a recorded space (the format is replay/kernel_tuner.py)
    report/      `evoflash report`
    search/      `evoflash search`
    verify/      `evoflash verify`
    words        Numbers and commands as they stand in a report, which others will read
"""
