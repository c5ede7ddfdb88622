"""Workloads: what --problem accepts, the canonical form, what is counted; figures against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoflash.errors import UsageError
from evoflash.operations.attention.workload import DTYPES, HEAD_DIMS, NAMED, AttentionWorkload, parse_workload
from evoflash.problem import Problem, check_fits, parse_problem
from evoflash.specs import load_gpu


@st.composite
def workloads(draw: st.DrawFn, longest: int = 40) -> AttentionWorkload:
    kv_heads = draw(st.integers(1, 4))
    return AttentionWorkload(
        batch=draw(st.integers(1, 3)),
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        seq_q=draw(st.integers(1, longest)),
        seq_kv=draw(st.integers(1, longest)),
        head_dim=draw(st.sampled_from(HEAD_DIMS)),
        dtype=draw(st.sampled_from(DTYPES)),
        causal=draw(st.booleans()),
    )


def visible(workload: AttentionWorkload) -> np.ndarray:
    """The mask of one head, spelled out from the ABI's definition."""
    query, key = np.arange(workload.seq_q)[:, None], np.arange(workload.seq_kv)[None, :]
    below = key <= query + workload.seq_kv - workload.seq_q
    return below if workload.causal else np.ones_like(below)


@given(workloads())
def test_the_canonical_form_reads_back(workload: AttentionWorkload) -> None:
    assert parse_workload(str(workload)) == workload


@given(st.lists(workloads(), min_size=1, max_size=4))
def test_the_canonical_form_of_several_workloads_reads_back(several: list[AttentionWorkload]) -> None:
    problem = Problem(tuple(several))
    assert parse_problem(str(problem)) == problem


@given(workloads())
def test_visible_pairs_are_those_of_the_mask(workload: AttentionWorkload) -> None:
    assert workload.visible_pairs == visible(workload).sum()


@given(workloads())
def test_flops_count_two_multiply_adds_per_visible_pair_and_dimension(workload: AttentionWorkload) -> None:
    pairs = int(visible(workload).sum()) * workload.batch * workload.heads
    assert workload.flops == 2 * 2 * pairs * workload.head_dim


@given(workloads())
def test_bytes_are_those_of_q_k_v_and_o(workload: AttentionWorkload) -> None:
    w = workload
    query = w.batch * w.heads * w.seq_q * w.head_dim
    key = w.batch * w.kv_heads * w.seq_kv * w.head_dim
    assert workload.bytes_moved == 2 * (2 * query + 2 * key)


def test_reported_flops_halve_a_square_causal_workload() -> None:
    full, causal = parse_workload("s1k_d64"), parse_workload("s1k_d64,causal")
    assert full.reported_flops == 4 * 4 * 16 * 1024 * 1024 * 64
    assert causal.reported_flops == full.reported_flops // 2
    assert causal.flops > causal.reported_flops  # the diagonal is visible


def test_reported_flops_count_visible_pairs_when_the_lengths_differ() -> None:
    decode = parse_workload("decode8k,causal")
    assert decode.reported_flops == decode.flops == 4 * 16 * 32 * 8192 * 128


def test_the_free_form_sets_both_lengths_and_the_key_heads() -> None:
    assert parse_workload("b=4,h=32,s=4096,d=128") == AttentionWorkload(4, 32, 32, 4096, 4096, 128)


def test_the_free_form_tells_lengths_and_heads_apart() -> None:
    text = "b=1, h=8, hkv=2, sq=1, skv=512, d=64, dtype=bf16, causal"
    assert parse_workload(text) == AttentionWorkload(1, 8, 2, 1, 512, 64, "bf16", causal=True)


def test_a_name_alone_is_full_and_fp16() -> None:
    mission = parse_workload("mission")
    assert (mission.causal, mission.dtype) == (False, "fp16")
    assert str(mission) == "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"


def test_a_name_can_be_refined() -> None:
    assert str(parse_workload("s2k_d64,causal,dtype=bf16")).endswith("d=64,dtype=bf16,causal")
    assert parse_workload("mission,s=640").seq_kv == 640


@pytest.mark.parametrize("name", NAMED)
def test_every_name_is_its_own_canonical_form(name: str) -> None:
    assert parse_workload(str(NAMED[name])) == parse_workload(name) == NAMED[name]


def test_workloads_that_share_a_compile_key_share_one_build() -> None:
    problem = parse_problem("mission+seed_long+s2k_d128+mission,causal")
    keys = problem.compile_keys("sm_89")
    assert [str(key) for key in keys] == [
        "d=64,dtype=fp16,full,gqa=1,sm_89",
        "d=128,dtype=fp16,full,gqa=1,sm_89",
        "d=64,dtype=fp16,causal,gqa=1,sm_89",
    ]


def test_the_key_head_ratio_is_compiled_in_and_the_heads_are_not() -> None:
    four, eight = parse_workload("b=1,h=8,hkv=2,s=64,d=64"), parse_workload("b=3,h=16,hkv=4,s=99,d=64")
    assert four.compile_key("sm_80") == eight.compile_key("sm_80")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks batch, heads"),
        ("b=1,h=8,d=64", "lacks seq_q, seq_kv"),
        ("misson", "'misson' in problem 'misson' is neither a name nor a field. Did you mean mission? "),
        ("mission,mask=full", "'mask=full' in problem"),
        ("mission,causal=yes", "'causal=yes' in problem"),
        ("mission,s=", "give a whole number from 1 up"),
        ("mission,s=1k", "give a whole number from 1 up"),
        ("mission,s=-5", "give a whole number from 1 up"),
        ("mission,s=²", "give a whole number from 1 up"),
        ("mission,sq=0", "seq_q=0 in a workload: give a number from 1 up"),
        ("mission,h=0", "heads=0 in a workload"),
        ("b=1,h=8,hkv=3,s=64,d=64", "heads=8 is not a multiple of kv_heads=3"),
        ("mission,d=72", "head_dim 72: use a multiple of 16 from 16 to 256"),
        ("mission,acc=fp8", "acc=fp8 with dtype fp16: use acc=fp32"),
        ("mission,dtype=bf16,acc=fp16", "acc=fp16 with dtype bf16"),
        ("mission,dtype=fp8", "dtype 'fp8' is unknown: use fp16 or bf16"),
        ("mission+", "lacks batch, heads"),
        ("misson", "Did you mean mission?"),
        ("b=1,b=2,h=8,s=64,d=64", "'b=1' and 'b=2' in problem 'b=1,b=2,h=8,s=64,d=64' both set batch"),
        ("mission,s=64,skv=128", "'s=64' and 'skv=128' in problem 'mission,s=64,skv=128' both set seq_kv"),
        ("mission,causal,full", "'causal' and 'full' in problem"),
        (
            "mission,b=65536",
            "b in problem 'mission,b=65536': at most 65,535, for batches lie along a grid's z",
        ),
        ("mission,h=70000", "'mission,h=70000': at most 65,535, for heads lie along a grid's y"),
        ("mission,s=10000000000", "s in problem 'mission,s=10000000000': at most 2,147,483,647"),
        ("mission,b=" + "9" * 5000, "at most 65,535"),
        ("mission,s=2000000000", "take 7,629 GiB, more than any GPU has (288 GB): at most s=75497472 fits"),
        ("b=60000,h=60000,s=64,d=128", "more than any GPU has (288 GB): at most b="),
    ],
)
def test_a_mistake_is_answered_with_what_to_write_and_what_would_fit(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_problem(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["mission,s=30000000", "b=65535,h=100,s=64,d=64", "b=1,h=64,sq=1,skv=9000000,d=128"]
)
def test_what_a_gpu_cannot_hold_is_refused_and_what_the_refusal_names_fits(text: str) -> None:
    gpu = load_gpu("l4")
    with pytest.raises(UsageError, match=r"l4 has 24 GB: at most \S+ fits") as error:
        check_fits(parse_problem(text), gpu)
    fits = str(error.value).split("at most ")[1].split(" fits")[0]
    said = [word.split("=")[0] for word in fits.split(",")]
    kept = [word for word in text.split(",") if word.split("=")[0] not in (*said, "s")]
    check_fits(parse_problem(",".join([*kept, fits])), gpu)


def test_a_gpu_whose_memory_is_not_known_refuses_nothing() -> None:
    check_fits(parse_problem("mission,s=30000000"), replace(load_gpu("l4"), memory_gb=0))


def test_the_memory_does_not_keep_results_apart() -> None:
    assert replace(load_gpu("l4"), memory_gb=0).hash == load_gpu("l4").hash
