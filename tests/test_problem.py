"""Workloads: what --problem accepts, the canonical form, what is counted; figures against brute force."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table_of_cases

from evoflash import operation as registry
from evoflash.errors import UsageError
from evoflash.kernels.standalone import genome_of
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


@table_of_cases(more=[("mission,b=" + "9" * 5000, "at most 65,535")])
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


@pytest.mark.parametrize("operation", registry.all_in_words(), ids=lambda operation: operation.name)
def test_every_operation_has_a_usual_problem_and_says_how_one_is_written(operation):
    problem = parse_problem(operation.usual_problem)

    assert problem.operation == operation.name
    (example,) = [line for line in operation.problem_help.splitlines() if line.startswith("For example: ")][
        :1
    ]
    for text in example.removeprefix("For example: ").split():
        assert parse_problem(text).operation == operation.name


def test_a_family_without_a_problem_is_for_its_operations_usual_one():
    _, problem, _ = genome_of("linear_simt", [], problem=None, gpu="h100")

    assert problem.operation == "linear"
