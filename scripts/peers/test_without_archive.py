"""Searches without the archive beside its kernels: what is asked for and what is said. Needs no GPU."""

import argparse
import json
import sys

import pytest

from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from scripts.peers import holdout, without_archive
from scripts.peers.rows import Ours, archived, ours

ROW = "s1k_d64"
FOUND = Genome("flash_mma", 1, (("warps", 2),))


def champion(row, gpu="h200"):
    return archived(parse_problem(row), load_gpu(gpu))


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_the_kernel_to_be_reached_is_the_archives_for_exactly_this_row(gpu):
    assert champion(ROW, gpu).gpu == "h200"
    assert champion(ROW, gpu).genome.family == "flash_wgmma"
    assert champion("b=3,h=5,s=333,d=64", gpu) is None


def test_a_time_of_another_gpu_is_no_time_of_this_one():
    assert [each.known_us is None for each in ours(ROW, load_gpu("h100"), (), count=2)] == [True]
    assert [each.known_us is None for each in ours(ROW, load_gpu("h200"), (), count=2)] == [False]


def in_place_of_compare(monkeypatch, code):
    real = without_archive.subprocess.run
    monkeypatch.setattr(
        without_archive.subprocess, "run", lambda words, **how: real([sys.executable, "-c", code], **how)
    )


def outcome(monkeypatch, tmp_path, code, *, found=True):
    """A row whose search found a kernel, and whose comparison is a program of that text."""
    ours = (Ours(FOUND, 30.0, "the search for this problem"),) if found else ()
    monkeypatch.setattr(holdout, "searched", lambda *_: (ours, {"reason": "no correct kernel"}))
    in_place_of_compare(monkeypatch, code)
    options = argparse.Namespace(row_limit=5.0)
    archive = champion(ROW)
    return without_archive.measured(ROW, archive, options, tmp_path)


def test_the_ratio_is_that_of_the_first_way_of_timing(monkeypatch, tmp_path):
    result = {"protocol": "pair-cold", "ratio": 1.017, "low": 1.01, "high": 1.02}
    said = json.dumps({"results": [result, {**result, "ratio": 2.0}], "notes": []})
    record = outcome(monkeypatch, tmp_path, f"print({said!r})")
    assert without_archive.ratio(record) == 1.017
    assert without_archive.line(record).split(maxsplit=1)[1] == (
        "1.017 [1.010, 1.020] of the archive's time, pair-cold"
    )
    assert record["found"]["values"] == {"warps": 2}
    json.dumps(record)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.exit('no comparison: it is wrong')", "no comparison: it is wrong"),
        ("import sys; sys.exit(3)", "it said nothing"),
        ("import time; time.sleep(60)", "no comparison within 5 s"),
    ],
)
def test_a_comparison_that_fails_is_a_row_with_its_reason(monkeypatch, tmp_path, code, reason):
    record = outcome(monkeypatch, tmp_path, code)
    assert record["failure"] == reason
    assert without_archive.ratio(record) is None
    assert without_archive.line(record).endswith(reason)


def test_a_search_that_finds_nothing_is_a_row_with_its_reason(monkeypatch, tmp_path):
    record = outcome(monkeypatch, tmp_path, "", found=False)
    assert record["failure"] == "the search found nothing: no correct kernel"


def test_rows_are_not_begun_when_they_would_end_too_late():
    options = argparse.Namespace(limit=100.0, least=20.0)
    archive = {ROW: champion(ROW)}
    (record,) = without_archive.records(archive, options, ends_s=0.0)
    assert record == {"row": ROW, "failure": "not begun: the time was over"}
