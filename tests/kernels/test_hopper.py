"""The hand-written Hopper kernel is right and silent in the emulator; test_faults.py has it patched."""

import itertools
from typing import Any, get_args

import pytest
from hopper_kernel import ARCH, CONFIGURATIONS, KERNEL, Configuration, Outcome, run_hopper

from evoflash.kernels.lint import lint
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.operation import Delivery, Schedule
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload

TEXT = KERNEL.read_text()
WAYS = tuple(itertools.product(get_args(Delivery), get_args(Schedule)))
TRIALS = ("normal", "rising", "needles")


def hopper(configuration: Configuration, workload: AttentionWorkload, **choices: Any) -> Outcome:
    return run_hopper(configuration.source(workload.compile_key(ARCH)), configuration, workload, **choices)


FULL_64 = "b=1,h=1,d=64"
CAUSAL_64 = "b=1,h=2,hkv=1,d=64,causal,dtype=bf16"
FULL_128 = "b=1,h=1,d=128,dtype=bf16"
CAUSAL_128 = "b=2,h=1,d=128,causal"
# Tails in rows and keys, several rounds through a ring; one row; rows that see no key, blocks without a tile.
LENGTHS = ("sq=75,skv=300", "sq=1,skv=77", "sq=200,skv=90")


@pytest.mark.cover
@pytest.mark.parametrize("kind", [FULL_64, CAUSAL_64, FULL_128, CAUSAL_128])
@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.sample(5)
def test_a_configuration_computes_attention_without_a_report(name: str, kind: str) -> None:
    configuration = CONFIGURATIONS[name]
    if not configuration.fits(parse_workload(f"{kind},s=1").head_dim):
        pytest.skip("more registers or shared memory than there are")
    runs = itertools.zip_longest(WAYS, LENGTHS, TRIALS)
    for at, ((delivery, schedule), lengths, trial) in enumerate(runs):
        outcome = hopper(
            configuration,
            parse_workload(f"{kind},{lengths or LENGTHS[0]}"),
            trial=trial or "normal",
            delivery=delivery,
            schedule=schedule,
            seed=at,
        )
        assert outcome.emulation.reports == ()
        assert outcome.verdict.reason == ""


@pytest.mark.parametrize("name", ["overlap", "alone"])
def test_strides_are_the_callers(name: str) -> None:
    workload = parse_workload("b=2,h=4,hkv=2,sq=70,skv=130,d=128,causal")
    outcome = hopper(CONFIGURATIONS[name], workload, heads_inside=True)
    assert outcome.emulation.reports == ()
    assert outcome.verdict.reason == ""


@pytest.mark.cover
@pytest.mark.parametrize("kind", [FULL_64, CAUSAL_128])
@pytest.mark.parametrize("name", ["plain", "ping_pong", "wide", "three_wide", "multicast_overlap"])
@pytest.mark.sample(3)
def test_ptxas_neither_spills_nor_serialises(name: str, kind: str) -> None:
    """C7510 to C7519 are how it says that it took a pipeline of wgmma apart."""
    key = parse_workload(f"{kind},s=1").compile_key(ARCH)
    if not CONFIGURATIONS[name].fits(key.head_dim):
        pytest.skip("more registers or shared memory than there are")
    build = compile_candidate(CONFIGURATIONS[name].candidate(key))
    assert build.ok, build.log
    assert (build.spill_bytes, build.warnings) == (0, ())


def test_the_text_uses_nothing_that_the_emulator_cannot_see() -> None:
    assert lint(TEXT) == ()
