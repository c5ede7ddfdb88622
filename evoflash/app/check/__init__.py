"""Finds what a kernel does wrong, by running it in the emulator under many schedules.

cases            The cases that a check runs
confined_runs    Has the runs of somebody else's kernel made in a sandbox, some once more, and judges here
                 what they answer
confined_worker  Runs somebody else's kernel in the emulator inside of a sandbox, and answers with bytes
coverage         Says what the runs of a check compared with what, and what they left open
findings         Merges the reports of many runs into findings about a kernel, and picks out slow accesses
one_run          The record of one run of a kernel in the emulator, and how it ended
own_kernel       Reads the comment of a user's .cu file that says how its kernel is launched
runs             Runs a kernel under many schedules in the emulator and gathers what is wrong with it
subject          What `evoflash check` is to check, as texts and launches
text_findings    What the lint, g++, NVRTC and ptxas say about a kernel's text, as findings
"""
