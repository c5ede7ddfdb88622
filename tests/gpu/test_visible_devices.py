"""Which GPUs a process may use: positions among those it saw before, and nothing else."""

import os

import pytest
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.gpu.launcher import restrict

NAME = "CUDA_VISIBLE_DEVICES"


@table_of_cases()
def test_positions_count_among_the_gpus_that_were_visible(monkeypatch, before, text, after):
    monkeypatch.delenv(NAME, raising=False)
    if before is not None:
        monkeypatch.setenv(NAME, before)
    restrict(text)
    assert os.environ.get(NAME) == after


@pytest.mark.parametrize("text", ["", "x", "0,", "-1", "0,0", "00,0", "1.5"])
def test_what_is_no_list_of_gpus_is_refused(monkeypatch, text):
    monkeypatch.delenv(NAME, raising=False)
    with pytest.raises(UsageError, match="give numbers with commas between"):
        restrict(text)
    assert NAME not in os.environ


def test_a_position_beyond_what_is_allowed_is_refused(monkeypatch):
    monkeypatch.setenv(NAME, "4,5")
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES allows 2"):
        restrict("2")
