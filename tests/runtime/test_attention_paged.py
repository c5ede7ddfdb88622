"""The launcher on kernels of paged attention: the struct that the kernel is given, and what is refused."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from exported_cases import PAGED_CASES, exported
from recording import sizes_of
from tables import table_of_cases

from evoflash.exports.launch_json import artefact
from evoflash.kernels.family import load_family
from evoflash.operation import operation_of
from evoflash.operations.paged import form
from evoflash.operations.paged.form import own_pages
from evoflash.problem import parse_problem
from evoflash.runtime.attention_paged import (
    PAGED_SIZES,
    PAGED_VERSION,
    PagedAddresses,
    PagedArgs,
    PagedNumbers,
)
from evoflash.runtime.launch import Kernel, Refused

STREAM = 0xABC0
PLAIN, FULL = "pages", "ragged pages with all features"


def kernel_of(name, recorder):
    made = artefact(exported(name))
    recorder.expects(sizes_of(next(iter(made.description["images"].values()))))
    return Kernel(made.description, made.images, driver=recorder.path)


def shape_of(w):
    sizes = w.names()
    pages = form.first_page(w) + form.own_pages(w) + form.pool_pages(w)
    return (*(sizes[each] for each in PAGED_SIZES), pages)


def strides_of(w, *, is_spread):
    """By tensor, of tensors that are dense or lie as a caller's do."""
    found = {}
    for spec in operation_of(w).tensors(w):
        order = spec.spread if is_spread and spec.spread else tuple(range(len(spec.shape)))
        step, known = 1, [0] * len(spec.shape)
        for axis in reversed(order):
            known[axis] = step
            step = step * spec.shape[axis] + (spec.gap if step == 1 and is_spread else 0)
        found[spec.name] = tuple(known)
    return found


def in_order(w, strides):
    """As a plan takes them: of a sequence, a row and a head; of a page, a head and a row."""
    rows = {name: strides[name][:2] for name in ("Q", "O", "LSE")}
    of_rows = {name: (w.seq_q * row, row, head) for name, (row, head) in rows.items()}
    table = strides["TABLE"][0] if "TABLE" in strides else 0
    return [of_rows["Q"], strides["K"][:3], strides["V"][:3], of_rows["O"], of_rows["LSE"], (table,)]


def numbers_of(w):
    given = PagedNumbers(
        window_left=w.window - 1,
        softcap=w.softcap,
        sink_dtype=w.sink,
        is_ragged=w.ragged,
        lse_base=2 if w.lse_base == "2" else 0,
        kv_length_bias=w.seq_q if w.caller == "append" else 0,
        page_table_v_offset=w.columns if own_pages(w) else 0,
    )
    return {name: getattr(given, name) for name in given.__dataclass_fields__}


def test_the_struct_is_the_one_that_kernels_read():
    mine = [
        (name, getattr(PagedArgs, name).offset, getattr(PagedArgs, name).size)
        for name, _ in PagedArgs._fields_
    ]
    theirs = [(name, at, kind.itemsize) for name, (kind, at) in form.LAYOUT.fields.items()]

    assert mine == theirs
    assert ctypes.sizeof(PagedArgs) == form.LAYOUT.itemsize
    assert form.STRUCT.version == PAGED_VERSION


@pytest.mark.parametrize("is_spread", [False, True], ids=["dense", "spread"])
@pytest.mark.parametrize("more", ["", "caller=csr", "caller=append", "lse=2", "b=1", "page=48"])
@pytest.mark.parametrize("name", PAGED_CASES)
@pytest.mark.sample(5)
def test_the_driver_is_given_the_struct_that_evoflash_gives_it(name, more, is_spread, recorder):
    case = exported(name)
    text = str(case.problem) + (f",{more}" if more and more.split("=")[0] not in ("b", "page") else "")
    (w,) = parse_problem(text).workloads
    if more in ("b=1", "page=48"):
        page = 48 if w.page % 16 == 0 else 3  # of the same compile key
        w = replace(w, **({"batch": 1} if more == "b=1" else {"page": page}))
    strides = strides_of(w, is_spread=is_spread)
    plan = kernel_of(name, recorder).plan(shape_of(w), in_order(w, strides), device=0, **numbers_of(w))
    (launch,) = load_family(case.genome.family).launches(case.genome, w, case.gpu)
    addresses = {spec.name: 0x7F00_0000_1000 * (at + 1) for at, spec in enumerate(operation_of(w).tensors(w))}
    workspace = 0x7EFF_0000_0000
    (wanted,) = operation_of(w).arguments(w, addresses, strides, workspace=workspace)
    given = {field: addresses.get(tensor, 0) for field, tensor in form._TENSOR_OF.items()}
    table = addresses["PAGES" if w.caller == "csr" else "TABLE"]
    pages = {each: int(wanted[each]) for each in ("k", "v")}  # page 0, which may lie before what is laid out
    recorder.library.recording_clear()

    plan.launch(PagedAddresses(**{**given, **pages}, page_table=table, workspace=workspace), STREAM)

    (asked,) = recorder.launches()
    assert asked.arguments == (np.asarray(wanted).tobytes(),)
    assert " ".join(map(str, launch.grid)) in asked.what.replace(",", " ")
    assert asked.attributes == ()
    assert (plan.workspace_bytes, plan.zeroed_bytes) == (launch.workspace_bytes, launch.zeroed_bytes)


def test_a_launch_starts_early_only_where_the_caller_says_that_it_may(recorder):
    (w,) = exported(FULL).problem.workloads
    strides, found = in_order(w, strides_of(w, is_spread=False)), []
    for is_early in (False, True):
        how = {**numbers_of(w), "is_early": is_early}
        plan = kernel_of(FULL, recorder).plan(shape_of(w), strides, device=0, **how)
        recorder.library.recording_clear()
        plan.launch(PagedAddresses(*(0x1000 * (at + 1) for at in range(12))), STREAM)
        found += recorder.launches()

    assert [len(each.attributes) for each in found] == [0, 1]


@table_of_cases()
def test_a_call_that_the_kernel_was_not_compiled_for_is_refused(changes, complaint, recorder):
    (w,) = exported(PLAIN).problem.workloads
    sizes = {**dict(zip((*PAGED_SIZES, "num_pages"), shape_of(w), strict=True)), **changes.pop("shape", {})}
    named = dict(
        zip(("q", "k", "v", "o", "lse", "table"), in_order(w, strides_of(w, is_spread=False)), strict=True)
    )
    strides = {**named, **changes.pop("strides", {})}

    with pytest.raises(Refused, match=complaint) as refused:
        kernel_of(PLAIN, recorder).plan(tuple(sizes.values()), tuple(strides.values()), device=0, **changes)
    assert "\n" not in str(refused.value)


@table_of_cases()
def test_an_address_that_no_kernel_takes_is_refused(changes, recorder):
    (w,) = exported(PLAIN).problem.workloads
    plan = kernel_of(PLAIN, recorder).plan(shape_of(w), in_order(w, strides_of(w, is_spread=False)), device=0)
    usual = {name: 0x1000 * (at + 1) for at, name in enumerate(PagedAddresses.__dataclass_fields__)}

    with pytest.raises(Refused):
        plan.launch(PagedAddresses(**{**usual, "page_indptr": 0, "last_page_len": 0, **changes}), STREAM)
