"""The hand-written Hopper kernel in the emulator: right and silent as it stands, loud when patched."""

import itertools
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import lint
from evoflash.operation import Delivery, Schedule
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS, KERNEL, Configuration
from scripts.hopper_kernel.on_emulator import Outcome, run_hopper

TEXT = KERNEL.read_text()
WAYS = tuple(itertools.product(get_args(Delivery), get_args(Schedule)))
TRIALS = ("normal", "rising", "needles")


def hopper(
    configuration: Configuration,
    workload: AttentionWorkload,
    *,
    patch: tuple[str, str] = ("", ""),
    **choices: Any,
) -> Outcome:
    """Build, with one piece of the text replaced where a patch is given, and run on a trial's inputs."""
    old, new = patch
    source = configuration.source(workload.compile_key(ARCH))
    if old:
        assert source.count(old) == 1, f"{source.count(old)} places for the patch {old!r}"
        source = source.replace(old, new)
    return run_hopper(source, configuration, workload, **choices)


# ---- right kernels

FULL_64 = "b=1,h=1,d=64"
CAUSAL_64 = "b=1,h=2,hkv=1,d=64,causal,dtype=bf16"
FULL_128 = "b=1,h=1,d=128,dtype=bf16"
CAUSAL_128 = "b=2,h=1,d=128,causal"
# Tails in rows and keys, several rounds through a ring; one row; rows that see no key, blocks without a tile.
LENGTHS = ("sq=75,skv=300", "sq=1,skv=77", "sq=200,skv=90")


@pytest.mark.cover
@pytest.mark.parametrize("kind", [FULL_64, CAUSAL_64, FULL_128, CAUSAL_128])
@pytest.mark.parametrize("name", CONFIGURATIONS)
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
def test_ptxas_neither_spills_nor_serialises(name: str, kind: str) -> None:
    """C7510 to C7519 are how it says that it took a pipeline of wgmma apart."""
    key = parse_workload(f"{kind},s=1").compile_key(ARCH)
    if not CONFIGURATIONS[name].fits(key.head_dim):
        pytest.skip("more registers or shared memory than there are")
    build = compile_candidate(CONFIGURATIONS[name].candidate(key))
    assert build.ok, build.log
    assert (build.spill_bytes, build.warnings) == (0, ())


def test_the_text_uses_nothing_that_the_emulator_cannot_see() -> None:
    directives = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#define"))
    assert lint(directives) == ()


# ---- patched ones


@dataclass(frozen=True)
class Patch:
    """A mistake in one place of the text, and the kinds of report of which one must be given.

    No kinds: nothing is wrong but the result.
    """

    name: str
    old: str
    new: str
    kinds: tuple[str, ...]
    configuration: str = "plain"


PATCHES = (
    # Rings.
    Patch(
        "the producer waits for the wrong phase",
        "phase_of<kStagesK>(j) ^ 1);",
        "phase_of<kStagesK>(j));",
        ("DEADLOCK",),
    ),
    Patch(
        "a slot is filled before it is free",
        "ef::mbar_wait(v_empty + 8 * slot, phase_of<kStagesV>(j - kLag) ^ 1);",
        "",
        ("async-overwrite", "mbarrier-overarrive"),
    ),
    Patch("Q is not waited for", "ef::mbar_wait(q_full, 0);", "", ("async-not-waited",)),
    Patch(
        "K is not waited for",
        "const int k_slot = j % kStagesK, v_slot = j % kStagesV;\n"
        "        ef::mbar_wait(k_full + 8 * k_slot, phase_of<kStagesK>(j));",
        "const int k_slot = j % kStagesK, v_slot = j % kStagesV;",
        ("async-not-waited",),
    ),
    Patch(
        "a consumer waits for the wrong phase",
        "ef::mbar_wait(v_full + 8 * v_slot, phase_of<kStagesV>(j));",
        "ef::mbar_wait(v_full + 8 * v_slot, phase_of<kStagesV>(j) ^ 1);",
        ("async-not-waited", "DEADLOCK"),
    ),
    Patch(
        "K is released while it is read",
        "pass_turn(j);\n        ef::wgmma_wait<0>();\n        ef::wgmma_fence_acc(s);\n"
        "        release(k_empty + 8 * k_slot, lane);",
        "release(k_empty + 8 * k_slot, lane);\n        pass_turn(j);\n        ef::wgmma_wait<0>();\n"
        "        ef::wgmma_fence_acc(s);",
        ("race-WAR",),
    ),
    Patch(
        "fewer bytes are expected than come",
        "ef::mbar_arrive_expect_tx(full, kTileBytes);",
        "ef::mbar_arrive_expect_tx(full, kTileBytes - 1024);",
        ("mbarrier-tx", "async-not-waited"),
    ),
    Patch(
        "more bytes are expected than come",
        "ef::mbar_arrive_expect_tx(full, kTileBytes);",
        "ef::mbar_arrive_expect_tx(full, kTileBytes + 1024);",
        ("DEADLOCK",),
    ),
    Patch(
        "a slot waits for one arrival too many",
        "constexpr int kArrivals = 4 * kConsumers * kCluster;",
        "constexpr int kArrivals = 4 * kConsumers * kCluster + 1;",
        ("DEADLOCK",),
    ),
    Patch(
        "a slot waits for half of its readers",
        "constexpr int kArrivals = 4 * kConsumers * kCluster;",
        "constexpr int kArrivals = 2 * kConsumers * kCluster;",
        ("race-WAR", "mbarrier-overarrive", "mbarrier-lapped"),
    ),
    Patch(
        "barriers are used before all know them",
        "ef::syncthreads();",
        "",
        ("mbarrier-init-race", "mbarrier-uninit"),
    ),
    Patch("TMA is not told of the barriers", "ef::fence_mbar_init();", "", ("missing-proxy-fence",)),
    # wgmma.
    Patch(
        "scores are read in flight",
        "ef::wgmma_wait<1>();",
        "ef::wgmma_wait<2>();",
        ("wgmma-acc-not-waited",),
        "overlap",
    ),
    Patch(
        "the output is rescaled in flight",
        "        ef::wgmma_wait<0>();\n        ef::wgmma_fence_acc(o);\n"
        "        release(v_empty + 8 * v_slot, lane);\n        rescale(o, shrink);",
        "        rescale(o, shrink);\n        ef::wgmma_wait<0>();\n        ef::wgmma_fence_acc(o);\n"
        "        release(v_empty + 8 * v_slot, lane);",
        ("wgmma-acc-not-waited",),
        "overlap",
    ),
    Patch(
        "P is packed in flight",
        "        ef::wgmma_wait<0>();\n        ef::wgmma_fence_acc(o);\n"
        "        release(v_empty + 8 * v_slot, lane);\n        rescale(o, shrink);\n"
        "        pack(p, s, group, warp_row, lane);",
        "        pack(p, s, group, warp_row, lane);\n        ef::wgmma_wait<0>();\n"
        "        ef::wgmma_fence_acc(o);\n        release(v_empty + 8 * v_slot, lane);\n"
        "        rescale(o, shrink);",
        ("wgmma-a-in-flight",),
        "overlap",
    ),
    Patch(
        "the registers of wgmma are not fenced",
        "        ef::wgmma_fence_acc(s);\n        ef::wgmma_fence();\n"
        "        multiply_keys(s, q_tile, k_ring + k_slot * kTileBytes);",
        "        multiply_keys(s, q_tile, k_ring + k_slot * kTileBytes);",
        ("missing-wgmma-fence",),
    ),
    Patch(
        "a descriptor's stride is half",
        "kPanelBytes, kSwizzleBytes, ef::SWIZZLE_128B);",
        "kPanelBytes, kSwizzleBytes / 2, ef::SWIZZLE_128B);",
        (),
    ),
    # Shared memory between the proxies.
    Patch(
        "P is not fenced for the tensor cores",
        "ef::fence_proxy_async();            // the tensor cores are to see what stmatrix wrote,",
        "",
        ("missing-proxy-fence",),
        "shared_p",
    ),
    Patch(
        "P of other warps is not waited for",
        "ef::bar_sync(kGroup + group, 128);  // all four warps' rows",
        "",
        ("race-RAW",),
        "shared_p",
    ),
    Patch(
        "O is not fenced for TMA",
        "    ef::fence_proxy_async();\n    ef::bar_sync(kGroup + group, 128);\n",
        "    ef::bar_sync(kGroup + group, 128);\n",
        ("missing-proxy-fence",),
    ),
    Patch(
        "O of other warps is not waited for",
        "    ef::fence_proxy_async();\n    ef::bar_sync(kGroup + group, 128);\n",
        "    ef::fence_proxy_async();\n",
        ("race-RAW", "missing-proxy-fence"),
    ),
    Patch("the store is not waited for", "ef::bulk_wait_read<0>();", "", ("async-at-exit",)),
    # Warpgroups.
    Patch(
        "registers are given out that nobody gave back",
        "kConsumers == 2 ? 24 : 32",
        "kConsumers == 2 ? 40 : 32",
        ("DEADLOCK",),
    ),
    Patch(
        "a turn is never passed",
        "if (group + 1 < kConsumers || j + 1 < tiles)",
        "if (group + 1 < kConsumers)",
        ("DEADLOCK",),
        "ping_pong",
    ),
    # Clusters.
    Patch(
        "blocks do not wait for one another's barriers",
        "if constexpr (kCluster > 1) {\n    ef::cluster_sync();\n  } else {\n    ef::syncthreads();\n  }",
        "ef::syncthreads();",
        ("dsmem-not-started", "mbarrier-init-race", "mbarrier-uninit"),
        "multicast",
    ),
    Patch(
        "a block leaves while others reach into it",
        "if constexpr (kCluster > 1) ef::cluster_sync();\n}",
        "}",
        ("dsmem-exited",),
        "multicast",
    ),
    Patch(
        "a slot is free when the own block has left it",
        "ef::mbar_arrive_cluster(ef::map_shared(empty, lane));",
        "ef::mbar_arrive_cluster(empty);",
        ("race-WAR", "race-WAW", "mbarrier-tx", "async-overwrite", "DEADLOCK"),
        "multicast",
    ),
    # Bounds.
    Patch(
        "keys past the end are seen",
        "const int end = (row_limit < seq_kv ? row_limit : seq_kv) - first_key",
        "const int end = row_limit + 4 - first_key",
        (),
    ),
    Patch(
        "rows past the end are stored",
        "const int row = first_row + lane / 4 + h * 8;\n      if (row < seq_q)\n",
        "const int row = first_row + lane / 4 + h * 8;\n",
        ("OOB-global",),
        "alone",
    ),
)


@pytest.mark.parametrize("delivery", get_args(Delivery))
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
@pytest.mark.sample(29)
def test_a_mistake_is_reported_or_shows_in_the_result(patch: Patch, delivery: Delivery) -> None:
    outcome = hopper(
        CONFIGURATIONS[patch.configuration],
        parse_workload("b=1,h=1,sq=150,skv=300,d=64"),
        delivery=delivery,
        patch=(patch.old, patch.new),
    )
    if patch.kinds:
        assert outcome.kinds & set(patch.kinds)
    else:
        assert outcome.kinds == set()
        assert not outcome.verdict.passed
