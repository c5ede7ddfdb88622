"""Paged attention as an operation: its texts, its launch struct, its reference, and what its inputs find."""

import math
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.kernels.standalone import interface
from evoflash.numerics import decode, encode, is_non_finite
from evoflash.operation import operation_of
from evoflash.operations.expectations import every_row
from evoflash.operations.paged import form, reference, relations
from evoflash.operations.paged.inputs import ALL, draw, sequences_of, timed_inputs
from evoflash.operations.paged.workload import LENGTHS, NAMED, PagedWorkload, distance, fitting
from evoflash.problem import parse_problem
from evoflash.validation.plan import check_correctness
from evoflash.workload import Output

TEXT = "b=5,h=6,hkv=2,sq=3,skv=90,d=32,page=16,dtype=bf16,lengths=even,window=24,softcap=5,sink,ragged"
FULL = parse_problem(TEXT).workloads[0]
PLAIN = parse_problem("b=3,h=4,hkv=2,sq=1,skv=70,d=16,page=3").workloads[0]
WORKLOADS = (
    PLAIN,
    FULL,
    replace(PLAIN, caller="csr", lse_base="2"),
    replace(FULL, ragged=False, caller="append", sink="bf16"),
)


# ---- texts


@table_of_cases()
def test_a_problem_is_read_back_from_its_own_text(text, canonical):
    problem = parse_problem(text)

    assert problem.operation == "paged_attention"
    assert str(problem) == (canonical or text)
    assert parse_problem(str(problem)) == problem
    assert parse_problem(f"paged_attention:{text}") == problem


def test_a_text_without_pages_is_attention_as_before():
    for text in ("mission", "decode8k", "b=1,h=8,s=512,d=64,causal"):
        assert parse_problem(text).operation == "attention"


@table_of_cases()
def test_a_problem_that_is_none_is_refused_in_one_line(text, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        parse_problem(text)
    assert "\n" not in str(refused.value)


@table_of_cases()
def test_named_rows_take_as_many_bytes_as_the_benchmark_says(name, megabytes):
    assert round(NAMED[name].bytes_moved / 1e6, 1) == megabytes


def test_lengths_of_a_name_are_as_many_as_sequences_and_end_with_the_longest():
    for make in LENGTHS.values():
        for batch in (1, 3, 16, 64):
            lengths = make(batch, 4096)
            assert len(lengths) == batch
            assert sorted(lengths) == lengths
            assert lengths[-1] == 4096 or make is LENGTHS["prod"]
    assert sum(LENGTHS["prod"](16, 131072)) == 409_600  # its share of production's lengths
    assert LENGTHS["padded"](8, 64)[:3] == [0, 0, 10]


def test_a_workload_of_a_key_compiles_to_it():
    for workload in WORKLOADS:
        key = workload.compile_key("sm_90a")
        operation = operation_of(key)
        for other in (*operation.check_workloads([key]), *operation.hidden_workloads([key], seed=3)):
            assert other.compile_key("sm_90a") == key
            assert parse_problem(str(other)).workloads == (other,)
    assert PLAIN.compile_key("sm_90a").page_unit == 1
    assert replace(PLAIN, page=192).compile_key("sm_90a").page_unit == 64


def test_a_window_needs_only_the_pages_that_it_reaches():
    wide, narrow = (replace(PLAIN, seq_kv=4096, page=16, window=each) for each in (0, 33))

    assert form.pool_pages(wide) - form.pool_pages(narrow) > 3 * 250
    assert wide.bytes_moved / narrow.bytes_moved > 60
    assert narrow.flops == 4 * 4 * 16 * 3 * 33


def test_what_fits_is_as_long_as_it_can_be():
    words = fitting(NAMED["serving_llama8b_b64_4k"], 1 << 28)
    skv = int(words.removeprefix("skv="))
    most = [replace(NAMED["serving_llama8b_b64_4k"], seq_kv=each).bytes_moved for each in (skv, skv + 1)]

    assert most[0] <= 1 << 28 < most[1]
    assert fitting(NAMED["serving_llama8b_b64_4k"], 10) == ""


def test_a_workload_is_nearer_to_one_of_its_own_kind():
    assert distance(FULL, FULL) == 0
    assert distance(FULL, replace(FULL, page=48)) < distance(FULL, replace(FULL, sink=""))
    assert distance(FULL, replace(FULL, sink="")) < distance(FULL, replace(FULL, head_dim=64))


# ---- the launch struct


def test_the_struct_is_the_same_in_python_and_in_c(tmp_path):
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")
    fields = "".join(
        f'printf("%zu ", offsetof(evoflash_paged_args, {field.name}));' for field in form.STRUCT.fields
    )
    main = f'int main(void) {{ {fields} printf("%zu", sizeof(evoflash_paged_args)); }}\n'
    program = f"#include <stddef.h>\n#include <stdio.h>\n{interface(_Family, 'any')}{main}"
    (tmp_path / "offsets.c").write_text(program)
    strict = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror")
    subprocess.run(["gcc", *strict, "offsets.c", "-o", "offsets"], cwd=tmp_path, check=True)
    found = subprocess.run([tmp_path / "offsets"], capture_output=True, text=True, check=True).stdout.split()

    *offsets, size = map(int, found)
    assert offsets == [form.LAYOUT.fields[field.name][1] for field in form.STRUCT.fields]
    assert size == form.LAYOUT.itemsize


class _Family:
    op = "paged_attention"


def test_the_kernels_own_text_of_the_struct_is_what_callers_include():
    callers = interface(_Family, "any")

    for field in form.STRUCT.fields:
        count = f"[{field.count}]" if field.count > 1 else ""
        assert f"  {field.type} {field.name}{count};" in callers


def test_an_axis_of_one_place_has_no_stride():
    lone = PagedWorkload(1, 4, 1, 1, 40, 16, 16)
    strides = {name: (977, 979, 983) for name in ("Q", "O")} | {"LSE": (7, 5), "TABLE": (991,)}
    strides |= {name: (64, 999, 16) for name in ("K", "V")}
    addresses = dict.fromkeys(("Q", "K", "V", "O", "TABLE", "LENGTHS"), 1 << 12)
    (value,) = form.arguments(lone, addresses, strides)

    assert value["q_strides"].tolist() == [0, 0, 979]
    assert value["k_strides"].tolist() == [64, 0, 16]
    assert value["page_table_stride"] == 0
    assert value["scale"] == np.float32(0.25)
    assert value["window_left"] == -1


def test_pages_far_out_in_a_pool_are_reached_from_its_beginning():
    far, near = (replace(PLAIN, caller=caller) for caller in ("append", "table"))
    strides = {spec.name: spec.strides for spec in form.tensors(far)}
    addresses = dict.fromkeys(("Q", "K", "V", "O", "TABLE", "LENGTHS"), 1 << 40)
    (value,), (other,) = (form.arguments(each, addresses, strides) for each in (far, near))
    first = form.first_page(far)

    assert first > 1 << 16
    assert (int(value["k"]) + 2 * first * strides["K"][0]) % (1 << 64) == int(other["k"]) == 1 << 40
    of_v, columns = first + form.own_pages(far), far.columns
    assert (int(value["v"]) + 2 * of_v * strides["V"][0]) % (1 << 64) == 1 << 40
    assert (value["page_table_v_offset"], other["page_table_v_offset"]) == (columns, 0)
    assert value["num_pages"] == of_v + form.pool_pages(far)
    table = draw("edges", far, seed=1).tensors["TABLE"].astype(np.int64)
    is_page = (table >= first) & (table < first + form.pool_pages(far))
    assert is_page[:, :columns].any()
    assert (table[:, columns:] - table[:, :columns] == form.own_pages(far))[is_page[:, :columns]].all()
    assert value["kv_length_bias"] == 1


# ---- inputs


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_inputs_are_of_the_workloads_shapes_and_poison_what_nobody_sees(workload):
    specs = {spec.name: spec for spec in operation_of(workload).tensors(workload) if spec.role == "input"}
    for name in ALL:
        inputs = draw(name, workload, seed=2)
        assert {key: x.shape for key, x in inputs.tensors.items()} == {
            key: spec.shape for key, spec in specs.items()
        }
        seen = np.zeros((form.pool_pages(workload), workload.page), bool)
        for sequence in sequences_of(workload, inputs):
            first = workload.first_key(sequence.rows, sequence.keys)
            at = np.arange(first, sequence.keys)
            seen[sequence.pages[at // workload.page], at % workload.page] = True
        poisoned = is_non_finite(inputs.tensors["V"], workload.dtype).any(axis=(1, 3))
        assert not (poisoned & seen).any()
        if name != "heavy_hidden":
            assert poisoned.any()


def test_entries_that_are_not_needed_name_no_page():
    inputs = draw("edges", FULL, seed=1)
    needed = 0
    for row, sequence in zip(inputs.tensors["TABLE"], sequences_of(FULL, inputs), strict=True):
        first = FULL.first_key(sequence.rows, sequence.keys) // FULL.page
        last = -(-sequence.keys // FULL.page)
        assert ((row[first:last] >= 0) & (row[first:last] < form.pool_pages(FULL))).all()
        others = np.concatenate([row[:first], row[last:]])
        assert ((others < 0) | (others >= form.pool_pages(FULL))).all()
        needed += last - first
    assert needed < inputs.tensors["TABLE"].size


def test_lengths_are_others_in_each_kind_and_zeros_are_among_them():
    drawn = {name: [each.keys for each in sequences_of(FULL, draw(name, FULL, seed=3))] for name in ALL}

    assert sorted(drawn["normal"]) == sorted(FULL.keys)
    assert not any(drawn["all_empty"])
    assert drawn["some_empty"][0] == drawn["some_empty"][-1] == 0 < max(drawn["some_empty"])
    assert len({tuple(each) for each in drawn.values()}) > len(ALL) // 2


def test_timed_sets_differ_in_order_of_pages_and_lengths_and_hold_no_poison():
    workload = replace(FULL, batch=8, ragged=False, lengths="even")
    sets = timed_inputs(workload, sets=3, rng=np.random.default_rng(1))

    assert len({inputs.tensors["TABLE"].tobytes() for inputs in sets}) == 3
    assert len({inputs.tensors["LENGTHS"].tobytes() for inputs in sets}) == 3
    for inputs in sets:
        assert sorted(each.keys for each in sequences_of(workload, inputs)) == sorted(workload.keys)
        table = inputs.tensors["TABLE"]
        assert ((table >= 0) & (table < form.pool_pages(workload))).all()
        assert not any(is_non_finite(inputs.tensors[name], "bf16").any() for name in "KV")


# ---- right and wrong


def attention(inputs, *, workload, fault=""):
    """O and LSE row by row, in fp64 but for what is rounded to 16 bits, with a fault."""
    w, given = workload, inputs.tensors
    out, lse = np.zeros((w.total_q, w.heads, w.head_dim)), np.full((w.total_q, w.heads), -np.inf)
    k, v, q = (decode(given[name], w.dtype).astype(np.float64) for name in "KVQ")
    sinks = np.full(w.heads, -np.inf)
    if w.sink:
        sinks = given["SINKS"] if w.sink == "fp32" else decode(given["SINKS"], "bf16")
    for at, sequence in enumerate(sequences_of(w, inputs)):
        pages, length = sequence.pages, sequence.keys
        if fault == "the neighbour's length":
            length = min(length, sequences_of(w, inputs)[at - 1].keys)
        if fault == "the last page in part":
            length -= length % w.page
        for row in range(sequence.rows):
            newest = length - sequence.rows + row + (fault == "sees the next key" and row + 1 < sequence.rows)
            window = w.window + (fault == "a key before the window") - (fault == "a key less in the window")
            seen = np.arange(max(0, newest + 1 - window) if w.window else 0, max(newest, -1) + 1)
            for head in range(w.heads):
                group = head // w.gqa_ratio if fault != "heads by turns" else head % w.kv_heads
                page, slot = pages[seen // w.page] % form.pool_pages(w), seen % w.page
                token = sequence.first_row + row
                scores = k[page, group, slot] @ q[token, head] / math.sqrt(w.head_dim)
                if w.softcap and fault != "no cap":
                    scores = w.softcap * np.tanh(scores / w.softcap)
                sink = sinks[head] / (4 if fault == "a sink that is scaled" else 1)
                top = max(scores.max(initial=-np.inf), sink)
                if top == -np.inf:
                    continue
                weights = np.exp(scores - top)
                total = weights.sum() + np.exp(sink - top) * (2 if fault == "a sink in two shares" else 1)
                rounded = decode(encode(weights, w.dtype), w.dtype)
                out[token, head] = rounded @ v[page, group, slot] / total
                lse[token, head] = top + np.log(total)
                if fault == "LSE without the sink" and len(seen):
                    lse[token, head] = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    if w.lse_base == "2" and fault != "LSE of base e":
        lse /= math.log(2)
    if fault == "empty rows are not written":
        out[np.isinf(lse)] = np.nan
    return Output({"O": encode(out, w.dtype), "LSE": lse.astype(np.float32)})


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_a_right_kernel_passes(workload):
    verdict = check_correctness(
        lambda inputs: attention(inputs, workload=workload), workload, seed=2, names=ALL[:8]
    )

    assert verdict.passed, verdict.reason


@table_of_cases()
def test_a_wrong_kernel_is_found(fault, at):
    workload = WORKLOADS[at or 0]

    def wrong(inputs):
        return attention(inputs, workload=workload, fault=fault)

    assert not check_correctness(wrong, workload, seed=2, names=ALL[:8]).passed


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
@pytest.mark.parametrize("name", ["edges", "some_empty", "sinks_on_top", "shared_pages"])
def test_the_reference_is_a_softmax_row_by_row(workload, name):
    inputs = draw(name, workload, seed=3)
    found = reference.expect(workload, inputs, where=every_row(workload))
    right = attention(inputs, workload=workload)

    assert np.allclose(found.numbers["LSE"].right, right.tensors["LSE"], atol=1e-5)
    error = np.abs(decode(right.tensors["O"], workload.dtype) - found.rows["O"].right)
    assert (error <= 3e-2 * np.abs(found.rows["O"].right).max()).all()


def test_a_sample_is_what_the_whole_reference_has_there():
    inputs = draw("edges", FULL, seed=3)
    whole = reference.expect(FULL, inputs, where=every_row(FULL))
    where = replace(every_row(FULL), groups=np.array([1, 4]), rows=np.array([0, 2, 5]))
    part = reference.expect(FULL, inputs, where=where)

    at = np.ix_(where.groups, where.rows)
    assert np.allclose(part.rows["O"].right, whole.rows["O"].right[at], rtol=1e-12, atol=1e-12)
    assert np.allclose(part.numbers["LSE"].right, whole.numbers["LSE"].right[at], rtol=1e-12)


def test_a_window_as_long_as_the_keys_and_a_sink_of_nothing_change_no_bit_of_what_is_right():
    plain = replace(FULL, window=0, sink="", softcap=0.0)
    inputs = draw("edges", plain, seed=4)
    bare = reference.expect(plain, inputs, where=every_row(plain))
    none = np.full(plain.heads, -np.inf, np.float32)
    for other, more in ((replace(plain, window=90), {}), (replace(plain, sink="fp32"), {"SINKS": none})):
        given = replace(inputs, tensors={**inputs.tensors, **more})
        found = reference.expect(other, given, where=every_row(other))
        assert np.array_equal(found.rows["O"].right, bare.rows["O"].right)
        assert np.array_equal(found.numbers["LSE"].right, bare.numbers["LSE"].right)


def test_relations_of_bits_hold_of_a_kernel_that_goes_by_logical_keys_alone():
    workload = replace(FULL, ragged=False, invariant=True)
    inputs = draw("normal", workload, seed=5)
    exact = [each for each in relations.relations(inputs, workload, seed=5) if each.is_exact]

    assert len(exact) == 3
    for relation in exact:
        before, after = (
            attention(side.runs[0], workload=workload).tensors["O"].reshape(-1, workload.head_dim)
            for side in (relation.before, relation.after)
        )
        assert np.array_equal(before[relation.before.rows], after), relation.change
