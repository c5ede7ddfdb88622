"""One file or folder for each command, and what they share. A command parses, makes one call and prints.

A folder's `command.py` has the command's options and loads nothing heavy; the modules beside it do the work.

search/        search for the fastest kernel, on a GPU, in the emulator or on a recording
best/          the kernel to use, from the database or the shipped archive
leaderboard/   correct kernels, fastest first
show           all that is known of one kernel
export         a genome as one .cu file
remeasure/     estimates made elsewhere, measured here
insights/      what a search has learnt
replay/        strategies compared on a recorded space
benchmark_search/  strategies and rivals on several spaces, with a page of plots
record/        a search's outcomes as a recorded space
ladder/        eight named kernels from scalar code to tensor cores
check/         what a kernel does wrong
baselines/     what the libraries' kernels reach
compare/       which of two kernels is faster
families       the kernel families
gpus           the known GPUs
problems       the named problems, and how to write others
doctor/        what this machine lacks; --conformance, --self-test, --noise

kernel_report  one kernel, a search's end or a run's failures, as text or JSON
options        the options that commands share
terminal       lines on stderr, tables on stdout, Ctrl-C in words
genome_words   a genome in few words
known_genome   the genome of an id, from database or archive
tables         tables as wide as the terminal
progress       the bar while a search runs
termination    Ctrl-C and SIGTERM end a command in good order
"""
