"""Frauds and mistakes that the harness must reject, and honest kernels that it must accept.

This is the self-test. The texts of the frauds are in `frauds/`.

    clock_frauds    Contenders that cheat the clock, timed and checked as candidates are, in a GPU process
    corpus          The corpus of frauds and mistakes (frauds/*.toml), and what became of each
    made_up_frauds  Frauds made up without a kernel
    run             Runs the self-test's frauds in the emulator and on a GPU, with mistakes at size and frauds
                    on the books
"""
