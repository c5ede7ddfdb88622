"""Everything that is run on a checkout and is no part of the program; each folder is a topic.

A script is run from the root of the checkout: `python -m scripts.<topic>.<name> --help`. What it measured
lies beside it in `scripts/<topic>/records/`, its test in `scripts/<topic>/test_<name>.py`. A record is JSON,
compressed with xz where it is long (`xzcat FILE`). A script whose measurement is done is deleted, its record
stays: a topic without scripts has such records.

    device/        Many independent measurements in one call of a lent machine with GPUs
    exports/       Whether exported kernels are right, in programs that know nothing of evoflash
    families/      Scripts that look at whole kernel families
    model/         What the performance model is worth beside measured times
    pages/         All scripts that write committed text
    peers/         Our kernels against the libraries, cuDNN, FlashAttention and Triton
    portfolio/     Portfolios
    proposal_path  Traces which modules a proposal crosses, from the command to its stored row
    records        Records of measurements, JSON that xz may have compressed, and the command that made one
    searches/      The past searches that ship with evoflash
    validation/    What the validator's thresholds accept and reject, shown on real kernels
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]  # of the checkout
