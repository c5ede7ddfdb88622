"""Everything that is run on a checkout and is no part of the program; each folder is a topic.

A script is run from the root of the checkout: `python -m scripts.<topic>.<name> --help`. What it measured
lies beside it in `scripts/<topic>/records/`, its test in `scripts/<topic>/test_<name>.py`.

    acceptance         The acceptance checks, one JSON line a letter
    cluster/           Whether times of several GPUs are comparable
    exports/           What exported kernels cost and whether they are right, in programs that know nothing of
                       evoflash
    families/          Scripts that look at whole kernel families
    hopper_kernel/     The hand-written Hopper kernel, tests/kernels/hopper.cu
    model/             How well the performance model ranks kernels whose times are known
    mutation_testing/  Mutation testing
    noise/             Whether the benchmark can be trusted, and how much its figures differ from run to run
    pages/             All scripts that write committed text
    peers/             Our kernels against the libraries, cuDNN, FlashAttention and Triton
    portfolio/         Whether a portfolio keeps its promises on a GPU: its regret, its numbers, what its
                       dispatcher costs
    proposal_path      Traces which modules a proposal crosses, from the command to its stored row
    records            Records of measurements, JSON that xz may have compressed, and the command that made
                       one
    sanitizer/         The planted faults of tests/faults under compute-sanitizer, beside what the emulator
                       says of them
    searches/          Searches beside their control arms, and first looks at ideas
    soak/              A long search on a GPU among candidates that crash, hang or give NaN: nothing may be
                       lost
    validation/        What the validator's thresholds accept and reject, shown on real kernels
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the checkout
