"""Records of the application as words: text, tables and pages, one file a subject.

A view opens no store and computes nothing; what it shows it is given.

    baselines    Baselines as tables or JSON for people
    benchmark    A benchmark as tables as wide as the terminal
    best         What `evoflash best` answers, as text and as JSON. Looks for no kernel
    check        Shows what `evoflash check` found
    compare      A comparison of two kernels as text or JSON; computes nothing
    database     What `evoflash db check` found, as text or JSON; checks nothing
    html/        A report's record as one HTML page
    insights     What a run's mutation operators brought, as tables or JSON; counts nothing
    kernel       Records as text or JSON for people
    ladder       Shows what `evoflash ladder` found
    leaderboard  The leaderboard as tables, Markdown, JSON or CSV, with a mark on every estimate
    portfolio    A portfolio as tables for people or as JSON; computes nothing but sums
    progress     Shows a search's progress on stderr
    replay       A comparison of search strategies as a table or JSON; computes nothing
    runs         A run in some lines, once or drawn again until it ends
    search       Cut out of evoflash.app.search.recorded
    selftest     What the self-test found
    tables       A table as wide as where it is printed
    terminal     What commands share towards the person
    verify       A claim and what was found, beside one another, as text or JSON; it decides nothing
"""
