"""Records of the application as words: text, tables and pages, one file a subject.

A view opens no store and computes nothing; what it shows it is given.

    baselines    Baselines as tables
    catalogue    What can be named in an option, in tables and lines
    check        Shows what `evoflash check` found
    doctor       What `evoflash doctor` found, in lines
    html/        A report's record as one HTML page
    insights     What a run's mutation operators brought, as tables
    kernel       Kernels as text
    ladder       Shows what `evoflash ladder` found
    leaderboard  The leaderboard as tables, Markdown or CSV, with a mark on every estimate
    portfolio    A portfolio as tables for people or as JSON; computes nothing but sums
    progress     Shows a search's progress on stderr
    recordings   Strategies on recorded spaces as tables
    runs         Runs as a table or in some lines, drawn again until they end
    search       What came of a search on a recorded space, or of several problems, as table or lines
    tables       A table as wide as where it is printed
    terminal     What commands share towards the person
    verify       A claim and what was found, beside one another
"""
