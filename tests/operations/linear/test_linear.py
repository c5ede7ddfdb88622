"""The linear layer as an operation: its texts, its 8-bit floats, its reference, and what its inputs find."""

from dataclasses import replace

import numpy as np
import pytest
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.numerics import decode, encode
from evoflash.operation import operation_of
from evoflash.operations.expectations import every_row, thresholds_of
from evoflash.operations.linear import e4m3
from evoflash.operations.linear.inputs import ALL, draw, timed_inputs
from evoflash.operations.linear.reference import expect, numbers_of
from evoflash.operations.linear.workload import (
    ACTIVATIONS,
    BLOCK,
    NAMED,
    ROW_CLASSES,
    WEIGHTS,
    LinearKey,
    LinearWorkload,
    distance,
    fitting,
)
from evoflash.problem import parse_problem
from evoflash.validation.plan import check_correctness
from evoflash.validation.validator import judge
from evoflash.workload import Output

SMALL = LinearWorkload(5, 264, 656, "fp8b128")
KINDS = [*({"weights": weights} for weights in WEIGHTS), {"weights": "fp8b128", "x": "e4m3"}]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(kind.values()))


# ---- texts


@pytest.mark.parametrize(
    "text",
    [
        "m=16,n=6144,k=4096,dtype=bf16",
        "m=1,n=1280,k=8192,dtype=fp8b128,bias",
        "m=9,n=1280,k=8192,dtype=fp8b128,x=e4m3,residual",
    ],
)
def test_a_problem_is_read_back_from_its_own_text(text):
    problem = parse_problem(f"linear:{text}")

    assert str(problem) == f"linear:{text}"
    assert parse_problem(str(problem)) == problem


def test_a_layer_may_be_called_by_its_name():
    assert parse_problem("linear:70b_tp8_qkv,m=1,dtype=fp8t").workloads == (
        LinearWorkload(1, *NAMED["70b_tp8_qkv"], "fp8t"),
    )


@table_of_cases()
def test_a_problem_that_is_none_is_refused_in_one_line(text, complaint):
    with pytest.raises(UsageError, match=complaint) as refused:
        parse_problem(f"linear:{text}")
    assert "\n" not in str(refused.value)


def test_a_kernel_is_compiled_for_a_class_of_rows():
    keys = {m: LinearWorkload(m, 8, 16).compile_key("sm_90a") for m in range(1, 65)}

    assert sorted({key.rows for key in keys.values()}) == list(ROW_CLASSES)
    assert all(key.fewest <= m <= key.rows for m, key in keys.items())
    assert all(key.workload(m, 8, 16).compile_key("sm_90a") == key for m, key in keys.items())


def test_bytes_are_those_of_the_tensors():
    for kind in KINDS:
        for added in ({}, {"bias": True}, {"residual": True}):
            workload = LinearWorkload(3, 200, 144, **kind, **added)
            tensors = operation_of(workload).tensors(workload)
            assert workload.bytes_moved == sum(spec.size_bytes for spec in tensors)


def test_what_fits_is_as_large_as_it_can_be():
    workload = LinearWorkload(8, 100_000, 4096)
    words = fitting(workload, 1 << 28)

    assert parse_problem(f"linear:m=8,{words},k=4096").workloads[0].bytes_moved <= 1 << 28
    assert int(words.removeprefix("n=")) > 0.99 * (1 << 28) / workload.bytes_moved * workload.n
    assert fitting(workload, 10) == ""


def test_a_workload_is_nearer_to_one_of_its_own_kind():
    shape = LinearWorkload(1, 4096, 4096)

    assert distance(shape, shape) == 0
    assert distance(shape, replace(shape, m=2)) < distance(shape, replace(shape, n=8192))
    assert distance(shape, replace(shape, n=8192)) < distance(shape, replace(shape, weights="fp8t"))


# ---- 8-bit floats


def test_every_number_of_e4m3_is_encoded_as_itself():
    codes = np.array([code for code in range(256) if code & 0x7F != e4m3.NAN], np.uint8)

    assert (e4m3.encode(e4m3.decode(codes)) == codes).all()
    assert e4m3.decode(np.array([0x01, 0x08, 0x38, 0x7E, 0xB8], np.uint8)).tolist() == [
        2**-9,
        2**-6,
        1,
        448,
        -1,
    ]
    assert np.isnan(e4m3.decode(np.array([0x7F, 0xFF], np.uint8))).all()


def test_what_lies_between_goes_to_the_nearest_and_a_tie_to_the_even_code():
    numbers = e4m3.decode(np.arange(e4m3.NAN, dtype=np.uint8))
    middle = (numbers[:-1] + numbers[1:]) / 2
    lower = np.arange(len(middle))

    assert (e4m3.encode(middle) == lower + lower % 2).all()
    assert (e4m3.encode(np.nextafter(middle, np.float32(0))) == lower).all()
    assert (e4m3.encode(-np.nextafter(middle, np.float32(1e9))) == (lower + 1 | 0x80)).all()
    assert e4m3.encode(np.array([1e9, -np.inf], np.float32)).tolist() == [0x7E, 0xFE]


# ---- right and wrong


def linear(inputs, *, workload=SMALL, fault=""):
    """y in fp32 with a fault, block of k after block of k."""
    x, w = numbers_of(inputs.x, workload.x), numbers_of(inputs.w, workload.weights)
    scale = np.ones((1, 1), np.float32) if inputs.w_scale is None else inputs.w_scale
    blocks = -(-workload.n // BLOCK), -(-workload.k // BLOCK)
    scale = np.broadcast_to(scale, blocks).copy()
    if fault == "scale of the next block of k":
        scale = np.roll(scale, 1, axis=1)
    if fault == "scale of the next block of n":
        scale = np.roll(scale, 1, axis=0)
    y = np.zeros((workload.m, workload.n), np.float32)
    for block in range(blocks[1] - (fault == "K tail dropped")):
        of_k = slice(block * BLOCK, (block + 1) * BLOCK)
        factor = np.repeat(scale[:, block], BLOCK)[: workload.n]
        if inputs.x_scale is not None:
            at = block - (fault == "x's scale of the block before")
            rows = np.arange(workload.m) - (fault == "x's scale of the row before")
            factor = factor * inputs.x_scale[max(at, 0), np.maximum(rows, 0), None]
        if fault != "block skipped" or block != 2:
            # Row by row, as kernels do it: in one product some builds of BLAS sum the last rows otherwise.
            y += np.stack([row @ w[:, of_k].T for row in x[:, of_k]]) * factor
    if fault == "one column of k skipped":
        y -= np.outer(x[:, 17], w[:, 17] * np.repeat(scale[:, 0], BLOCK)[: workload.n])
    if fault == "a row leaks into the next":
        y[1:] += 1e-3 * y[:-1]
    if fault == "the last column is the one before":
        y[:, -1] = y[:, -2]
    if fault == "x in fp16":
        with np.errstate(over="ignore"):
            half = replace(inputs, x=encode(x.astype(np.float16).astype(np.float32), "bf16"))
        return linear(half, workload=workload)
    if fault == "sums in bf16":
        y = np.zeros_like(y)
        for at in range(0, workload.k, 16):
            factor = np.repeat(scale[:, at // BLOCK], BLOCK)[: workload.n]
            y = decode(encode(y + x[:, at : at + 16] @ w[:, at : at + 16].T * factor, "bf16"), "bf16")
    for added in (inputs.bias, inputs.residual):
        if added is not None and fault != "nothing added":
            y = y + decode(added, "bf16")
    return Output({"Y": encode(y, "bf16")})


@each_kind
@pytest.mark.parametrize("added", [{}, {"bias": True, "residual": True}], ids=["plain", "added"])
def test_a_right_kernel_passes(kind, added):
    workload = replace(SMALL, **kind, **added)

    verdict = check_correctness(lambda inputs: linear(inputs, workload=workload), workload, seed=2)

    assert verdict.passed, verdict.reason
    assert 1e-3 < verdict.rel_l2 < 2e-3  # the rounding of y


@table_of_cases()
def test_a_wrong_kernel_is_found(fault, weights, bias, x):
    workload = replace(SMALL, weights=weights or "fp8b128", bias=bool(bias), x=x or "bf16")

    def wrong(inputs):
        return linear(inputs, workload=workload, fault=fault)

    with np.errstate(invalid="ignore", over="ignore"):
        assert not check_correctness(wrong, workload, seed=2).passed


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("x", ACTIVATIONS)
@pytest.mark.cover
def test_the_reference_is_the_sum_of_products_of_what_is_given(name, x):
    workload = replace(SMALL, bias=True, residual=True, x=x)
    inputs = draw(name, workload, seed=3)
    found = expect(workload, inputs, where=every_row(workload)).rows["Y"]

    scale = np.repeat(np.repeat(inputs.w_scale, BLOCK, 0)[: workload.n], BLOCK, 1)[:, : workload.k]
    w = e4m3.decode(inputs.w).astype(np.float64) * scale
    given = numbers_of(inputs.x, x).astype(np.float64)
    if x == "e4m3":
        given *= np.repeat(inputs.x_scale.T, BLOCK, 1)[: workload.m, : workload.k]
    right = given @ w.T
    right += decode(inputs.bias, "bf16") + decode(inputs.residual, "bf16").astype(np.float64)

    assert np.allclose(found.right[0], right, rtol=1e-9, atol=1e-9 * np.abs(right).max())
    assert np.isfinite(found.honest).all()


def test_no_weight_is_a_nan_and_every_input_differs():
    drawn = {name: draw(name, SMALL, seed=1) for name in ALL}

    assert not any((inputs.w & 0x7F == e4m3.NAN).any() for inputs in drawn.values())
    assert len({inputs.x.tobytes() + inputs.w.tobytes() for inputs in drawn.values()}) == len(ALL)


@each_kind
def test_every_eighth_column_of_y_is_what_rounding_leaves(kind):
    workload = LinearWorkload(4, 264, 1168, **kind)
    inputs = draw("normal", workload, seed=1)
    found = expect(workload, inputs, where=every_row(workload)).rows["Y"]
    left = found.honest[0][:, 5::8]

    assert (np.abs(found.right[0][:, 5::8]) < 1e-12).all()
    assert 0 < np.abs(left).max() < 1e-5
    assert np.abs(np.delete(found.right[0], np.s_[5::8], axis=1)).mean() > 0.3


def test_neighbouring_scales_are_far_apart():
    scale = draw("far_scales", LinearWorkload(2, 520, 640, "fp8b128"), seed=1).w_scale

    for axis in (0, 1):
        near, far = np.minimum(*_pairs(scale, axis)), np.maximum(*_pairs(scale, axis))
        assert (far / near > 60).all()


def _pairs(x, axis):
    return np.take(x, range(x.shape[axis] - 1), axis), np.take(x, range(1, x.shape[axis]), axis)


def test_scales_of_x_lie_as_libraries_want_them():
    """Those of a block side by side, a multiple of 16 bytes of them: DeepGEMM's and FlashInfer's layout."""
    workload = replace(SMALL, x="e4m3")
    inputs = draw("normal", workload, seed=1)

    assert inputs.x_scale.shape == (6, 8)
    assert np.isnan(inputs.x_scale[:, 5:]).all()
    blocks = np.abs(e4m3.decode(inputs.x))[:, :640].reshape(5, 5, BLOCK)
    assert (blocks.max(axis=2) > e4m3.LARGEST / 2).all()  # each block's codes are used to the end
    assert len(np.unique(inputs.x_scale[:, :5])) > 1


@pytest.mark.parametrize("x", ACTIVATIONS)
def test_sets_of_timed_inputs_differ_and_are_of_the_workloads_shapes(x):
    workload = replace(SMALL, bias=True, x=x)
    sets = timed_inputs(workload, sets=3, rng=np.random.default_rng(1))

    assert len({inputs.w.tobytes() for inputs in sets}) == 3
    for inputs in sets:
        assert x == "bf16" or np.isfinite(inputs.x_scale[:, : workload.m]).all()
        shapes = {spec.name: spec.shape for spec in operation_of(SMALL).tensors(workload)}
        assert {name: x.shape for name, x in inputs.tensors.items()}.items() <= shapes.items()


EIGHT_BITS = LinearKey("fp8b128", 32, "sm_90a", x="e4m3")


def test_shapes_to_check_on_are_of_the_key_and_of_whole_vectors():
    for key in (
        LinearKey("fp8b128", 8, "sm_90a"),
        LinearKey("bf16", 64, "sm_90a", residual=True),
        EIGHT_BITS,
    ):
        operation = operation_of(key)
        for workload in (*operation.check_workloads([key]), *operation.hidden_workloads([key], seed=3)):
            assert workload.compile_key("sm_90a") == key
            assert workload.n % 8 == 0


def test_a_row_whose_other_columns_are_small_is_rounded_by_more():
    workload = LinearWorkload(64, 133, 128)
    trial = draw("normal", workload, seed=0xDE62DC745BA9)
    known = expect(workload, trial, where=every_row(workload))
    honest = known.rows["Y"].honest[0].copy()

    assert known.rows["Y"].scale.honest_max_over_rms > thresholds_of(workload).max_over_rms
    assert judge(workload, [(trial, known, Output({"Y": encode(honest, "bf16")}))]).passed
    honest[8, 132] *= 1.01
    wrong = judge(workload, [(trial, known, Output({"Y": encode(honest, "bf16")}))])
    assert wrong.reason.startswith("max_over_rms in normal")
