"""Turns the words of `evoflash search` into a plan, and runs plans as runs in the store.

limits    When a search ends
machines  Where the work of a search is done
many      Several problems, each a run of its own with its own budget, one after the other
plan      What a search is before anything has run
recorded  A search on a recorded space, stored as a run of its own, and what it says at its end
session   A plan is run to its budget, or until Ctrl-C, and stored
stopping  Ctrl-C and SIGTERM end a command in good order
transfer  What earlier searches teach the next one
"""
