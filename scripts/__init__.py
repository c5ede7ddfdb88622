"""Everything that is run on a checkout and is no part of the program; each folder is a topic.

A script is run from the root of the checkout: `python -m scripts.<topic>.<name> --help`. What it measured
lies beside it in `scripts/<topic>/records/`, its test in `scripts/<topic>/test_<name>.py`.

    cluster             what a cluster costs, and how far one search carries
    exports             exported kernels, where evoflash is not: right numbers and what a call costs
    families            what whole kernel families render, compile and cost; whether anything has changed
    hopper_kernel       the hand-written Hopper kernel, in the emulator and on a GPU
    model               how well the performance model ranks kernels
    mutation_testing    whether the emulator notices a kernel whose synchronisation was weakened
    noise               whether the benchmark can be trusted
    pages               all that write committed text
    peers               our kernels against the libraries
    portfolio           whether a portfolio keeps its promises on a GPU
    sanitizer           the planted faults under compute-sanitizer
    searches            searches beside their control arms; first looks at ideas
    soak                a long search among candidates that crash and hang
    validation          what the validator's gates accept and reject

    acceptance          the acceptance checks (the shell script beside it calls it)
    command_line        the command that started a script, for its record
    wgmma_shapes        writes a header of evoflash/device, which names this place
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the checkout
