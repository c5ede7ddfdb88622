"""Frauds and mistakes that the harness must reject, and honest kernels that it must accept.

This is the self-test. The texts of the frauds are in `frauds/`.

    bookkeeping_frauds  Frauds on the clock and on the books, tried on made-up records
    clock_frauds        Contenders that cheat the clock, timed and checked as candidates are, in a GPU process
    corpus              The corpus of frauds and mistakes (frauds/*.toml), and what became of each
    large_size_frauds   Mistakes that only many keys make small, made by NumPy in the kernel's place and
                        judged as at size
    run                 Runs the self-test's frauds in the emulator and on a GPU, with mistakes at size and
                        frauds on the books
"""
