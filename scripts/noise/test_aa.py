"""scripts/noise/aa.py without a GPU: how it calibrates, what it counts, and what a cut-off run keeps."""

import pytest

from evoflash.specs import load_gpu
from scripts.noise import aa

H200 = load_gpu("h200")


@pytest.mark.parametrize(
    ("ratio_of", "guess"),
    [
        (lambda extra: 1.0115 + 4e-4 * extra, 10),
        (lambda extra: 1 + 1e-5 * extra, 400),
        (lambda extra: 1 + 2e-5 * max(0, extra - 300), 400),
        (lambda extra: 1 + 3e-3 * extra, 400),
    ],
)
def test_the_extra_work_of_the_slower_copy_is_found_whatever_it_hides_behind(ratio_of, guess):
    tried = []
    while len(tried) < 8 and not (tried and aa.WANTED[0] < tried[-1][1] < aa.WANTED[1]):
        extra = aa.next_guess(tried) if tried else guess
        tried.append((extra, ratio_of(extra)))
    assert aa.WANTED[0] < tried[-1][1] < aa.WANTED[1], tried


def test_the_spread_over_processes_is_of_ratios_and_of_raw_times():
    runs = [
        {"problem": "p", "protocol": "cold", "ratio": ratio, "winner_us": {"median": us}, "anchor_us": {}}
        for ratio, us in ((0.800, 5.0), (0.804, 5.1), (0.802, 5.2))
    ]
    spread = aa.spread(runs)
    assert spread["ratio_spread"] == pytest.approx(0.005)
    assert spread["raw_spread"] == pytest.approx(0.04)
    assert spread["ratio_median"] == 0.802
