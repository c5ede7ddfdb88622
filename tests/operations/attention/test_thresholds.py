"""The thresholds are those that the calibration record justifies: one that moves without it fails here."""

from dataclasses import asdict

import pytest
from places import ROOT

from evoflash.kernels.family import families_for
from evoflash.operations.attention.operation import OPERATION
from evoflash.operations.expectations import calibration
from evoflash.specs import load_gpu
from scripts.records import read_record

RECORD = read_record(ROOT / calibration(ROOT / "evoflash/operations/attention/thresholds.toml"))
# Families that came when no GPU was at hand, on the emulator's small shapes.
EMULATED = read_record(ROOT / "scripts/validation/records/gates-calibration-emulated.json")
BOTH = pytest.mark.parametrize("record", [RECORD, EMULATED], ids=["gpu", "emulated"])
MOST_USED = 0.95  # of a gate, by any honest kernel: beyond, it will reject one some day


@BOTH
def test_the_gates_are_those_that_were_calibrated(record):
    """Changed one? Run the command that the record names, and commit both."""
    assert {name: asdict(gates) for name, gates in OPERATION.thresholds().items()} == record["gates"]


@BOTH
def test_no_honest_kernel_was_refused(record):
    assert record["refused"] == []


@BOTH
@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp16-scores"])
def test_honest_kernels_stay_within_each_gate_with_room(precision, record):
    largest = record["largest"][precision]
    assert set(largest) == {"rel_l2", "honest", "max_over_rms", "lse"}
    assert max(row["share"] for row in largest.values()) <= MOST_USED


def test_the_largest_are_the_largest_of_the_rows():
    for row in RECORD["rows"]:
        assert row["share"] <= RECORD["largest"][row["precision"]][row["gate"]]["share"]


def test_shares_are_of_the_gates():
    for row in (row for row in RECORD["rows"] if row["gate"] == "rel_l2"):
        gate = OPERATION.thresholds()[row["precision"]].rel_l2
        assert row["share"] == pytest.approx(row["value"] / gate, rel=1e-3)


def test_every_family_was_calibrated():
    runs = [*RECORD["runs"], *EMULATED["runs"]]
    assert {row["family"] for row in runs} == {family.name for family in families_for(load_gpu("h200"))}
