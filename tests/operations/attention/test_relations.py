"""Oracles that need no reference: silent about a right kernel, loud about the mistake that each is for."""

from functools import partial

import numpy as np
import pytest
from tables import table_of_cases
from tiled_kernel import tiled

from evoflash.numerics import decode, encode
from evoflash.operations.attention import relations
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation import metamorphic
from evoflash.workload import Relation

FULL = AttentionWorkload(2, 4, 2, 60, 131, 64)
CAUSAL = AttentionWorkload(2, 4, 2, 60, 131, 64, causal=True)
EMPTY_ROWS = AttentionWorkload(2, 4, 2, 70, 33, 64, causal=True)
ORACLES = {
    "averages_without_queries": relations.averages_without_queries,
    "is_linear_in_values": relations.is_linear_in_values,
    "ignores_shifts": relations.ignores_shifts,
    "keeps_heads_apart": relations.keeps_heads_apart,
    "shares_keys_in_groups": relations.shares_keys_in_groups,
    "ignores_order": relations.ignores_order,
    "ignores_copies": relations.ignores_copies,
    "hides_the_future": relations.hides_the_future,
}
DRAWN = {"is_linear_in_values", "ignores_shifts", "keeps_heads_apart", "ignores_order"}


def ask(name, kernel, workload):
    drawn = {"rng": np.random.default_rng(3)} if name in DRAWN else {}
    trial = draw("normal", workload, seed=2)
    holding = ORACLES[name](trial, workload=workload, **drawn)
    holding = [holding] if isinstance(holding, Relation) else holding
    with np.errstate(over="ignore", invalid="ignore"):
        return metamorphic.complaint(kernel, holding, workload=workload)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ORACLES)
def test_an_oracle_says_nothing_about_a_right_kernel(name, dtype):
    masks = {"ignores_order": (FULL,), "ignores_copies": (FULL,), "hides_the_future": (CAUSAL, EMPTY_ROWS)}
    for given in masks.get(name, (FULL, CAUSAL, EMPTY_ROWS)):
        workload = AttentionWorkload(2, 4, 2, given.seq_q, given.seq_kv, 64, dtype, given.causal)
        kernel = partial(tiled, dtype=dtype, causal=given.causal, tile=32)
        assert ask(name, kernel, workload) == ""


@table_of_cases()
def test_an_oracle_finds_the_mistake_that_it_is_for(name, fault):
    assert ask(name, partial(tiled, fault=fault), FULL)


def test_keys_may_not_matter_by_their_size():
    """A maximum over |K| instead of the scores, say, that saves weights which underflow."""

    def clipped(trial):
        keys = trial.k.view(np.float16).clip(-3, 3).view(np.uint16)
        return tiled(type(trial)(trial.name, trial.q, keys, trial.v))

    assert "shifted keys" in ask("ignores_shifts", clipped, FULL)


@pytest.mark.parametrize("fault", ["causal off by one", "causal loses the diagonal"])
def test_causal_differences_catch_a_mask_off_by_one(fault):
    assert ask("hides_the_future", partial(tiled, causal=True, fault=fault), CAUSAL)


def test_one_element_that_moves_is_found_and_named():
    """A fiftieth of its row's RMS, in one element of 30,720: far below the pooled limit."""

    def nudged(trial):
        output = tiled(trial)
        if "permuted" in trial.name:
            row = decode(output.tensors["O"][1, 2, 37], "fp16")
            row[5] += 0.02 * np.sqrt((row**2).mean())
            output.tensors["O"][1, 2, 37] = encode(row, "fp16")
        return output

    assert "b=1 h=2 row=37 col=5" in ask("ignores_order", nudged, FULL)


def test_a_racing_kernel_does_not_repeat():
    rng = np.random.default_rng(0)

    def racing(trial):
        output = tiled(trial)
        output.tensors["O"][0, 0, int(rng.integers(60))] ^= 1
        return output

    trial = draw("normal", FULL, seed=2)
    assert metamorphic.repeats(tiled, trial, workload=FULL) == ""
    assert "two runs" in metamorphic.repeats(racing, trial, workload=FULL)


def test_a_short_workload_has_no_half_to_copy():
    one_key = AttentionWorkload(1, 1, 1, 4, 1, 64)
    assert ask("ignores_copies", lambda trial: dense.output(trial.q), one_key) == ""
