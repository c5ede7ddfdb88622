"""The options that say where a search works: what contradicts, and what a continued search keeps."""

import pytest

from evoflash.app.search.machines import HERE, MachineOptions, Machines
from evoflash.errors import UsageError
from evoflash.evaluation import RunStart


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (MachineOptions(gpus="0", workers=2), "--gpus and --workers"),
        (MachineOptions(gpus="0", scheduler="localhost"), "--gpus and --scheduler"),
        (MachineOptions(tls="certs"), "--tls is the certificate for a --scheduler"),
        (MachineOptions(gpus="0", evaluator="emulated"), "--gpus measures"),
        (MachineOptions(workers=0), "give a number from 1 to 512"),
        (MachineOptions(ahead=0), "--ahead 0"),
    ],
)
def test_options_that_contradict_one_another_are_refused(asked, says):
    with pytest.raises(UsageError, match=says):
        asked.check()


@pytest.mark.parametrize(
    "asked", [MachineOptions(), MachineOptions(gpus="all"), MachineOptions(workers=3, ahead=1)]
)
def test_options_that_make_sense_are_not(asked):
    asked.check()


def test_a_continued_search_keeps_its_proposals_in_flight_unless_told_otherwise():
    begun = RunStart(ahead=6)
    assert HERE.with_ahead_of(begun).ahead == 6
    assert Machines(ahead=2).with_ahead_of(begun).ahead == 2
    assert HERE.with_ahead_of(RunStart()) == HERE
