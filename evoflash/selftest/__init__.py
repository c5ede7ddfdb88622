"""Self-test: frauds and mistakes that the harness must reject, and honest kernels that it must accept. The
texts of the frauds are in `frauds/`.

    run                 the whole self-test
    corpus              the frauds as records
    on_emulator         what the rungs without a GPU say to a fraud
    on_gpu              what the GPU's rungs say to it
    clock_frauds        contenders that cheat the clock
    large_size_frauds   mistakes that many keys make small
    bookkeeping_frauds  frauds on the clock and on the books, in made-up records
    outcome             what became of each
    report              the outcomes as lines and as JSON
"""
