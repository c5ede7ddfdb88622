"""One function judges any kernel on a workload: trials first, then the oracles; the reason names which."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from tiled_kernel import tiled

from evoflash.operations.attention.inputs import ALL
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation.plan import check_correctness
from evoflash.workload import Output

FULL = AttentionWorkload(2, 4, 2, 60, 131, 64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [(1, 1), (60, 131), (70, 33)])
@pytest.mark.sample(2)
def test_an_honest_kernel_is_accepted(lengths, causal):
    workload = AttentionWorkload(2, 4, 2, *lengths, 64, "bf16", causal)
    verdict = check_correctness(partial(tiled, dtype="bf16", causal=causal), workload, seed=4)
    assert verdict.passed, verdict.reason


def test_the_reason_names_the_trial_and_no_further_trial_is_run():
    seen = []

    def drops_a_tile(trial):
        seen.append(trial.name)
        return tiled(trial, fault="second tile dropped")

    verdict = check_correctness(drops_a_tile, FULL, seed=4)
    assert not verdict.passed
    assert "in normal" in verdict.reason
    assert seen == ["normal"]


GENERAL = ("without queries", "part of V", "keys shifted", "heads exchanged", "keys of group")
FULL_ALONE, CAUSAL_ALONE = ("permuted", "half twice"), ("with keys changed",)


@pytest.mark.parametrize(
    ("words", "causal"),
    [*((each, False) for each in GENERAL + FULL_ALONE), *((each, True) for each in GENERAL + CAUSAL_ALONE)],
)
def test_each_oracle_is_asked(words, causal):
    """Trials are all passed; the kernel is wrong on what that oracle shows it."""

    def kernel(trial):
        output = tiled(trial, causal=causal)
        return (
            Output({**output.tensors, "O": output.tensors["O"] ^ 0x8000}) if words in trial.name else output
        )

    assert not check_correctness(kernel, replace(FULL, causal=causal), seed=4, names=("normal",)).passed


def racing():
    calls = []

    def kernel(trial):
        output = tiled(trial)
        calls.append(trial)
        output.tensors["O"][0, 0, 0, 0] ^= len(calls) % 2
        return output

    return kernel


def test_bits_must_repeat_unless_the_family_declares_atomics():
    names = ("normal",)
    assert "two runs" in check_correctness(racing(), FULL, seed=4, names=names).reason
    assert check_correctness(racing(), FULL, seed=4, names=names, is_deterministic=False).passed


def test_every_trial_is_run():
    seen = []

    def kernel(trial):
        seen.append(trial.name)
        return tiled(trial)

    assert check_correctness(kernel, FULL, seed=4).passed
    assert set(ALL) <= set(seen)


def test_it_needs_no_gpu_library():
    code = "import sys, evoflash.validation.plan; sys.exit('cupy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
