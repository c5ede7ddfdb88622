"""The commands, one file each. A command parses its options, makes one call of app/ and shows the answer.

baselines         `evoflash baselines` times the libraries' attention on a problem
benchmark_search  `evoflash benchmark-search` compares strategies and rivals on recorded spaces
best              `evoflash best` shows the best kernel known for a problem
check             `evoflash check` shows what a kernel does wrong, found in the emulator
compare           `evoflash compare` says which of two kernels is faster here, on this machine
config            `evoflash config` shows which settings hold, and where each comes from
dashboard         `evoflash dashboard` shows a run as an Optuna study in optuna-dashboard
db                `evoflash db check` says whether a database is whole
doctor            `evoflash doctor` says what this machine lacks, and whether it can be trusted
evaluate          `evoflash evaluate` takes a given kernel through every check to its time
export            `evoflash export` writes any known genome as files that need no evoflash
families          `evoflash families` shows the kernel families, their params and checks
gpus              `evoflash gpus` lists the GPUs that evoflash knows and marks the one present
insights          `evoflash insights` shows what a stored search has learnt
ladder            `evoflash ladder` shows eight kernels, from scalar code to tensor cores
leaderboard       `evoflash leaderboard` shows databases' correct kernels, fastest first
mcp               `evoflash mcp` offers the tools of evoflash/mcp/ to a coding agent
new               `evoflash new` writes files to begin an extension of one's own from
portfolio         `evoflash portfolio` chooses a few kernels for many shapes
problems          `evoflash problems` lists the named problems and their shapes
profile           `evoflash profile` reads a kernel's hardware counters here, on this machine
record            `evoflash record` writes what a search found out as a file for `evoflash replay`
remeasure         `evoflash remeasure` measures here what was estimated elsewhere
replay            `evoflash replay` compares search strategies on a recorded space
report            `evoflash report` writes a run as JSON or an HTML page
runs              `evoflash runs` lists, renames, merges and deletes the searches of a database
search            `evoflash search` searches for the fastest correct kernel of a problem, or of several
show              `evoflash show` shows all that is known about one kernel, or what a run failed at
status            `evoflash status` and `evoflash watch` show how far a running search has come
verify            `evoflash verify` checks a claim about a kernel and times it again here
worker            `evoflash worker` lends this machine to the searches of a scheduler
"""
