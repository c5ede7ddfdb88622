"""Shows the records of the application as text, tables, JSON and pages, one file a subject.

A view decides nothing; what it shows it is given.

    baselines    Shows the libraries' times as JSON or as tables, one for each workload and protocol
    benchmark    Shows a benchmark of strategies as JSON, or as tables as wide as the terminal
    best         Shows what `evoflash best` found, as JSON or text
    check        Shows what `evoflash check` found, as JSON or as text in the style of a compiler
    compare      Shows a comparison of two kernels as JSON or text
    database     Shows what `evoflash db check` found, as JSON or text
    html/        Shows a report as one HTML page that needs no other file and no network
    insights     Shows what a run's mutation operators brought, as JSON or tables
    kernel       Shows one kernel, the outcome of a search or a run's failures, as JSON or text
    ladder       Shows what `evoflash ladder` found, as JSON, a table or a bar chart
    leaderboard  Shows the leaderboard as tables, Markdown, JSON or CSV, every estimate marked
    portfolio    Shows a portfolio as tables
    progress     Shows a search's progress on stderr, on a terminal as a chart and a line with a bar
    replay       Shows a comparison of search strategies as JSON or a table
    runs         Shows a database's runs as a table or JSON, and one run in some lines
    search       Shows what came of searching several problems, as a table, JSON or a line for each
    selftest     Shows what the self-test found, as JSON or lines
    tables       Writes a table as wide as where it is printed
    terminal     Prints what a command answers, wrapped to the width of the terminal
    verify       Shows a claim and what was found beside one another, as JSON or text
"""
