"""The scripts that calibrate and prove the validator: what can be tested of them without a GPU."""

import itertools
import random

import numpy as np
import pytest
from tiled_kernel import tiled

from evoflash.operations.attention.inputs import ALL
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import thresholds_of
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.validation.validator import Errors, part_of
from scripts.validation import calibrate, honest
from scripts.validation.subjects import Subject, few_rows


def test_every_pair_of_values_occurs():
    rows = honest.pairwise(honest.FACTORS, random.Random(3))
    for a, b in itertools.combinations(range(len(honest.FACTORS)), 2):
        wanted = set(itertools.product(honest.FACTORS[a], honest.FACTORS[b]))
        assert {(row[a], row[b]) for row in rows} == wanted


def test_the_lengths_are_those_that_were_asked_for():
    ranges = [(15, 17), (31, 33), (63, 65), (127, 129), (255, 257)]
    asked = {1, 2, 3, 511, 1000, 1024, 2049, 4096, 8192}
    asked |= {length for low, high in ranges for length in range(low, high + 1)}
    assert set(honest.LENGTHS) == asked


def test_over_twenty_seeds_every_kind_of_input_comes_several_times():
    seen = [name for seed in range(20) for name in honest.trials_of(seed, 5)]
    assert min(seen.count(name) for name in ALL) >= 3


def test_a_long_workload_is_sampled_at_its_ends():
    where = few_rows(AttentionWorkload(1, 4, 1, 8192, 8192, 64), random_generator(), most_scores=1 << 21)
    assert {0, 127, 128, 8190, 8191} <= set(where.rows.tolist())
    assert where.groups.tolist() == [0, 3]
    short = AttentionWorkload(1, 4, 1, 64, 64, 64)
    assert len(few_rows(short, random_generator(), most_scores=1 << 21).rows) == 64


def random_generator():
    return np.random.default_rng(0)


class NumpyMachine:
    """A tiled kernel in NumPy in the place of every genome."""

    name, gpu = "NumPy", load_gpu("h200")

    def __init__(self, fault=""):
        self.fault = fault

    def run(self, subject, workload, trial, sample):
        output = tiled(trial, dtype=workload.dtype, causal=workload.causal, tile=16, fault=self.fault)
        return part_of(output, sample, workload=workload)


@pytest.mark.parametrize(("fault", "is_accepted"), [("", True), ("second tile dropped", False)])
def test_a_turn_accepts_the_honest_kernel_and_rejects_another(fault, is_accepted):
    case = honest.Case(AttentionWorkload(2, 4, 2, 20, 33, 64, "bf16"))
    known = honest.references(case.workload, honest.trials_of(0, 5), 0)
    subject = Subject(Genome("flash_mma", 1, ()), case.workload.compile_key(""), "")
    reason = honest.run_turn(NumpyMachine(fault), subject, case, known, seed=0)
    case.add(subject, reason)

    assert (reason == "") == is_accepted
    assert (case.rejected == []) == is_accepted
    record = {
        "cases": [honest.as_row(case)],
        "turns": {"done": 1, "planned": 1},
        "kernels": 1,
        "seconds": 1.0,
    }
    assert f"{int(is_accepted)} of 1 runs accepted" in honest.summary(record)


def test_oracles_are_asked_with_the_first_seed():
    case = honest.Case(AttentionWorkload(2, 4, 2, 20, 33, 64))
    known = honest.references(case.workload, ("ones",), 0)
    subject = Subject(Genome("flash_mma", 1, ()), case.workload.compile_key(""), "")
    skips = NumpyMachine("small values skipped")  # of V: nothing of that in `ones`
    assert "the mean of V" in honest.run_turn(skips, subject, case, known, seed=0)
    assert honest.run_turn(skips, subject, case, known, seed=1) == ""


def test_the_worst_run_of_each_gate_is_kept_with_its_place():
    found = calibrate.Worst()
    for share, value in ((0.2, 1.0), (0.7, 2.0), (0.5, 3.0)):
        found.take(share, value, f"genome {share}", "shape")
    assert (found.share, found.value, found.genome) == (0.7, 2.0, "genome 0.7")


def test_the_share_of_a_gate_is_one_at_the_gate():
    workload = AttentionWorkload(1, 1, 1, 64, 64, 64)
    gates = thresholds_of(workload)
    at_the_gates = Errors(
        inputs="normal",
        is_ordinary=True,
        squared=gates.rel_l2**2,
        reference_squared=1.0,
        honest_squared=(gates.rel_l2 / gates.honest_factor) ** 2,
        max_over_rms=gates.max_over_rms,
        honest_max_over_rms=0.0,
        lse=1.0,
        lse_error=1e-3,
        broken="",
        where="",
        lse_where="",
    )
    assert {gate: round(share, 9) for gate, (share, _) in calibrate.used(at_the_gates, workload).items()} == {
        "honest": 1,
        "max_over_rms": 1,
        "lse": 1,
        "rel_l2": 1,
    }
