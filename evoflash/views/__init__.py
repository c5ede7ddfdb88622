"""Shows the records of the application as text, tables, JSON and pages, one file a subject.

A view decides nothing; what it shows it is given.

    catalogue    Shows what can be named in an option
    check        Shows what `check` and `evaluate` say of a kernel file, in the style of a compiler
    doctor       Shows what `evoflash doctor` found, in lines
    html/        Shows a report as one HTML page that needs no other file and no network
    insights     Shows what a run's mutation operators brought, as tables
    kernel       Shows one kernel, its counters, two compared, a search's outcome or a run's failures, as text
    ladder       Shows what `evoflash ladder` found, as a table, the kernels or a bar chart
    leaderboard  Shows the leaderboard as tables, Markdown or CSV, and the libraries' times as tables
    portfolio    Shows a portfolio as tables
    progress     Shows a search's progress on stderr, on a terminal as a chart and a line with a bar
    recordings   Shows strategies on recorded spaces as tables
    runs         Shows runs as a table, in lines and over several seeds, and whether their rows are whole
    search       Shows what came of a recorded space, or of several problems, as a table or lines
    tables       Writes a table as wide as where it is printed
    terminal     Prints what a command answers, wrapped to the width of the terminal
    verify       Shows a claim and what was found beside one another, as text
"""
