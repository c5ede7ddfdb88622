"""`evoflash search`: strings become a plan, a plan becomes a run in the store. The loop: evoflash/search.py.

    limits    When a search ends
    machines  Where the work of a search is done
    many      One search from options to its result, and several problems, each a run of its own with its own
              budget
    plan      What a search is before anything has run
    recorded  A search on a recorded space, stored as a run of its own, and what it says at its end
    session   A plan is run to its budget, or until Ctrl-C, and stored, with what it takes
    stopping  Ctrl-C and SIGTERM end a command in good order
    transfer  What earlier searches teach the next one
"""
