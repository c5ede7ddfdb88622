"""One file or folder for each command, and what they share. A command parses, makes one call and prints.

A folder's `command.py` has the command's options and loads nothing heavy; the modules beside it do the work.

search/        search for the fastest kernel, on a GPU, in the emulator or on a recording
best/          the kernel to use, from the database or the shipped archive
leaderboard/   correct kernels, fastest first
status/        what is being searched now, once or until it ends
runs/          the searches of a database: listed, renamed, merged, deleted
db/            whether a database is whole
report/        a run as one HTML page
show           all that is known of one kernel
export/        a genome as one .cu file
evaluate/      one given genome, checked, timed and stored
remeasure/     estimates made elsewhere, measured here
insights/      what a search has learnt
dashboard/     a run as an Optuna study, shown by optuna-dashboard
replay/        strategies compared on a recorded space
benchmark_search/  strategies and rivals on several spaces, with a page of plots
record/        a search's outcomes as a recorded space
ladder/        eight named kernels from scalar code to tensor cores
portfolio/     a few kernels for many shapes, and their dispatcher
check/         what a kernel does wrong
baselines/     what the libraries' kernels reach
compare/       which of two kernels is faster
verify/        a claim about a kernel, checked and timed again
families       the kernel families
gpus           the known GPUs
problems       the named problems, and how to write others
new/           a family, operator, GPU or strategy of one's own, to begin from
worker/        this machine at work for the searches of others
config         which settings hold, and where each comes from
doctor/        what this machine lacks; --conformance, --self-test, --noise

kernel_report  one kernel, a search's end or a run's failures, as text or JSON
options        the options that commands share
terminal       lines on stderr, tables on stdout, Ctrl-C in words
genome_words   a genome in few words
known_genome   the genome of an id, from the database or the archive
tables         tables as wide as the terminal
progress       the bar while a search runs
defaults       what config files and the environment say of options
unexpected     an error that nobody foresaw: one line, and a log
termination    Ctrl-C and SIGTERM end a command in good order
"""
