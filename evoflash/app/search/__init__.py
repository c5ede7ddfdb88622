"""Turns the words of `evoflash search` into a plan, and runs plans as runs in the store.

edited_sources  Judges kernels whose text a language model edited, as `evoflash evaluate` does
language_model  Puts a language model beside a search's strategy, live or as an earlier run had it
limits          When a search ends, by evaluations, time or nearness to the physical floor
machines        The machines that do a search's work
many            Searches several problems, each as a run of its own with its own budget
plan            Turns the strings of a command line into a checked plan of a search
proposing       Makes the strategy of a plan, in this process or in one of its own
recorded        Searches a recorded space and stores that as a run of its own
session         Runs a plan to its budget or until Ctrl-C, and stores the run
stopping        Ends a command in good order on Ctrl-C or SIGTERM. What it was doing is not finished
transfer        What earlier searches teach the next one
"""
