"""The table of primitives says what the headers hold: no function more, none less, in the right file."""

import math
import re

import pytest

from evoflash.kernels import ef_layer
from evoflash.trust.conformance.cases import Primitive, primitives

ARCHES = ("sm_80", "sm_90", "sm_90a")


def functions(text: str) -> set[str]:
    return set(re.findall(r"^EF_DEV [^;{]*?\b(\w+)\(", text, re.MULTILINE))


@pytest.mark.parametrize("header", ef_layer.headers())
def test_each_function_of_a_header_is_in_the_table_and_the_other_way_round(header):
    listed = [name for entry in primitives() if entry.file == header for name in entry.functions()]
    inner = {"wgmma_shape_ss", "wgmma_shape_rs", "wgmma_shape_e4m3"}  # what wgmma_ss and the like are made of

    assert sorted(listed) == sorted(functions(ef_layer.headers()[header]) - inner)


def test_each_entry_names_a_header():
    assert {entry.file for entry in primitives()} <= set(ef_layer.headers())


def count(entry, axes):
    return math.prod(len(entry.axes[axis]) for axis in axes if axis in entry.axes)


def test_a_primitive_has_an_overload_for_each_type_and_element_type():
    """Templates take them all with one definition."""
    for entry in primitives():
        text = ef_layer.gpu_text(entry.file)
        for name in entry.functions():
            plain = re.findall(rf"^(?!template).*\nEF_DEV [^;{{]*?\b{name}\(", text, re.MULTILINE)
            assert len(plain) in (0, count(entry, ("type", "dtype", "mode", "b"))), name


def test_the_cases_are_all_combinations_once():
    for entry in primitives():
        cases = [str(case) for case in entry.cases()]

        assert len(set(cases)) == len(cases) == count(entry, entry.axes), entry.name
        assert {case.function for case in entry.cases()} == entry.functions(), entry.name


def test_how_an_entry_is_compared_is_known():
    for entry in primitives():
        assert entry.arch in ARCHES, entry.name
        assert entry.compare in ("bits", "ulp", "runs"), entry.name
        assert (entry.ulp > 0) == (entry.compare == "ulp"), entry.name


def test_which_gpus_have_a_primitive():
    ampere, hopper, wgmma = (Primitive("x", "x.h", {}, "x", arch) for arch in ARCHES)

    assert [arch.runs_on("sm_89") for arch in (ampere, hopper, wgmma)] == [True, False, False]
    assert [arch.runs_on("sm_90a") for arch in (ampere, hopper, wgmma)] == [True, True, True]
    assert not wgmma.runs_on("sm_100a")


def test_the_table_holds_every_shape_of_wgmma_in_every_layout():
    cases = {entry.name: len(list(entry.cases())) for entry in primitives()}

    assert cases["wgmma_ss"] == 32 * 2 * 4 * 16 * 2
    assert cases["wgmma_rs"] == 32 * 2 * 2 * 4 * 2
