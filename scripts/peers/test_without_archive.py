"""Searches without the archive beside its kernels: what is asked for and what is said. Needs no GPU."""

import argparse

import pytest

from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.peers import without_archive
from scripts.peers.rows import archived, ours

ROW = "s1k_d64"


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


def test_rows_are_not_begun_when_they_would_end_too_late():
    options = argparse.Namespace(limit=100.0, least=20.0)
    archive = {ROW: champion(ROW)}
    (record,) = without_archive.records(archive, options, ends_s=0.0)
    assert record == {"row": ROW, "failure": "not begun: the time was over"}
