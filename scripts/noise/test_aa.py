"""scripts/noise/aa.py without a GPU: how it calibrates, what it counts, and what a cut-off run keeps."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evoflash.gpu.launcher import PresentGpu
from evoflash.gpu.timing import paired as sequential_test
from evoflash.gpu.timing.benchmark import KernelContender
from evoflash.gpu.timing.paired import QuadTimes
from evoflash.gpu.timing.protocols import protocols_of
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.noise import aa
from scripts.noise import site as aa_site

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


def test_the_slower_copy_is_another_kernel_and_the_same_but_for_its_delay():
    plain, slow = (
        aa_site.built("mission", aa_site.winner("mission", H200), H200, extra)[0] for extra in (0, 10)
    )
    assert Path(plain).read_bytes() != Path(slow).read_bytes()
    source = Path(slow).with_name("kernel.cu").read_text()
    assert "".join(
        line for line in source.splitlines(True) if "delay" not in line and "unroll 10" not in line
    ) == (Path(plain).with_name("kernel.cu").read_text())


class MadeUpSite:
    """A site whose slower copies are slower by 0.1 % an iteration and 0.4 % for being there."""

    def __init__(self, left_s=1000.0):
        self.gpu, self.left_s, self.rng = H200, left_s, np.random.default_rng(0)

    def bench(self, problem):
        return SimpleNamespace(workload=parse_problem(problem).workloads[0])

    def protocol(self, row):
        protocols = protocols_of(self.bench(row.problem).workload, H200)
        return next(protocol for protocol in protocols if protocol.name == row.protocol)

    def load(self, problem, genome, *, name, extra=0):
        return KernelContender(name, SimpleNamespace(us=5.0 * (1.004 + 1e-3 * extra if extra else 1.0)))

    def forget(self):
        pass


class MadeUpPair:
    def __init__(self, first, second, bench, protocol, *, rng):
        self._us, self._rng = (first.kernel.us, second.kernel.us), rng

    def block(self):
        first, second = (tuple(us * np.exp(self._rng.normal(0, 5e-4, 2))) for us in self._us)
        return QuadTimes(first, second, (1980, ""))


@pytest.fixture
def made_up(monkeypatch):
    monkeypatch.setattr(aa, "ContenderPair", MadeUpPair)
    monkeypatch.setattr(sequential_test, "ContenderPair", MadeUpPair)
    monkeypatch.setattr(aa, "output", lambda contender, bench: np.zeros(4, np.uint16))
    monkeypatch.setattr(aa.launcher, "present_gpu", lambda: PresentGpu("NVIDIA H200", 90, "13.0", "", ()))


def measured(tmp_path, site, parts=("calibrate", "aa", "planted")):
    path = tmp_path / "aa.json"
    aa.measure(site, parts, share=0.1, processes=0, path=path)
    return json.loads(path.read_text())


def test_copies_are_counted_as_unclear_and_the_calibrated_slowdown_as_slower(made_up, tmp_path):
    record = measured(tmp_path, MadeUpSite())
    for row, copies, planted in zip(aa.ROWS, record["aa"], record["planted"], strict=True):
        assert copies["answers"] == {"faster": 0, "slower": 0, "unclear": round(row.copies * 0.1)}
        assert planted["answers"] == {"faster": 0, "slower": round(row.planted * 0.1), "unclear": 0}
        assert planted["ratio_median"] == pytest.approx(1.015, abs=1.2e-3)
    last = [each["runs"][-1] for each in record["calibrate"]]
    assert [run["extra"] for run in last[1:]] == [last[1]["extra"]] * 2  # one copy for both power states
    assert all(aa.WANTED[0] < run["ratio"] < aa.WANTED[1] for run in last)


def test_only_the_parts_asked_for_are_made(made_up, tmp_path):
    record = measured(tmp_path, MadeUpSite(), parts=("aa",))
    assert [len(record[part]) for part in aa.PARTS] == [0, 3, 0, 0]


def test_without_time_left_no_comparison_begins_and_the_file_is_whole(made_up, tmp_path):
    record = measured(tmp_path, MadeUpSite(left_s=1.0), parts=("aa",))
    assert record["aa"] == []
    assert record["took_s"] >= 0


def test_a_slower_copy_that_computes_something_else_ends_it(made_up, monkeypatch, tmp_path):
    monkeypatch.setattr(aa, "output", lambda contender, bench: np.array([contender.name == "slow"]))
    with pytest.raises(SystemExit, match="something else"):
        measured(tmp_path, MadeUpSite())


def test_the_spread_over_processes_is_of_ratios_and_of_raw_times():
    runs = [
        {"problem": "p", "protocol": "cold", "ratio": ratio, "winner_us": {"median": us}, "anchor_us": {}}
        for ratio, us in ((0.800, 5.0), (0.804, 5.1), (0.802, 5.2))
    ]
    spread = aa.spread(runs)
    assert spread["ratio_spread"] == pytest.approx(0.005)
    assert spread["raw_spread"] == pytest.approx(0.04)
    assert spread["ratio_median"] == 0.802
