"""The use cases, one file or folder for each thing that a command or a Python call asks for.

Nothing here prints or parses a command line. A use case returns a record, which views/ turns into words; what
is to be said on the way goes through notices.

    baselines      Times libraries' kernels on a problem, in turns, and stores the times
    best           Finds the best kernel known for a problem, in the database or in the shipped archive
    catalogue      GPUs, problems, families, strategies and kinds of export, which options can name, and the
                   ef:: primitives
    check/         Finds what a kernel does wrong, by running it in the emulator under many schedules
    compare        Decides which of two kernels is faster on this GPU, or that it is unclear
    dashboard      Writes a run as an Optuna study, and serves it until Ctrl-C in optuna-dashboard
    doctor         Says what this machine lacks of all that evoflash needs, and what to do about it
    evaluate       Takes given genomes through every check to their times, and stores them as a run
    export         Writes a kernel in one of the kinds of evoflash/exports/ and names the commands that do
    insights       What a run has learnt of values, failures and operators, in sentences with numbers
    judge/         Judges kernels of anybody's for programs that write them
    kernel_lookup  Finds the genome of an id or of its first digits, what is known of it, and what a run
                   failed at
    ladder         Evaluates eight named kernels, from scalar code to tensor cores, one after the other
    leaderboard    Reads and ranks the leaderboard's rows of one database or several, and their Pareto front
    model_credit   What a language model brought to a run, beside its control arm, in numbers and sentences
    new_files      Writes a family, operator, GPU or strategy to begin one's own from, as working files
    objectives     The objectives of a search and the Pareto front of rows that have figures for them
    portfolio/     Chooses a few kernels for many shapes, with the rule that says which computes what
    profile        Reads kernels' hardware counters on this machine's GPU, and stores them beside the kernels'
                   evaluations
    recordings     Writes a database's outcomes as a recorded space, and compares strategies on such spaces
    repeats        Compares searches that were repeated with several seeds, by their best times so far
    report/        Collects all that is known of a run into one record, for JSON or a page
    runs           Lists, follows, renames, merges, deletes and checks the runs of a database, with what they
                   took
    search/        Turns the words of `evoflash search` into a plan, and runs plans as runs in the store
    shape_files    Reads a file of shapes, and what each of them counts, for portfolios and searches
    verify/        Checks somebody's claim about a kernel and times the kernel again on this machine
"""
