"""Frauds and mistakes that the harness must reject, and honest kernels that it must accept.

This is the self-test. The texts of the frauds are in `frauds/`.

    corpus         The corpus of frauds and mistakes (frauds/*.toml), and what became of each
    run            Runs the self-test's frauds in the emulator and on a GPU, with mistakes at size and frauds
                   on the books
    staged_frauds  Frauds that are no text of a kernel
"""
