"""Edits of a rendered kernel's text: what is an edit, and what is counted as which mistake."""

import pytest
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.evaluation import Candidate
from evoflash.kernels.edited_text import (
    MOST_GROWTH,
    EditRefusedError,
    check_edits,
    kernel_body,
    render_edited,
)
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import valid_genome
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu

GPU, PROBLEM = load_gpu("l4"), parse_problem("mission")
KEYS = PROBLEM.compile_keys(GPU.arch)
PARENT = valid_genome("flash_mma", {}, PROBLEM, GPU)


def edited(*edits: tuple[str, str], parent: Genome = PARENT) -> Genome:
    return Genome(parent.family, parent.version, parent.values, (*parent.edits, *edits))


def mistake(child: Genome, parent: Genome = PARENT) -> str:
    try:
        check_edits(child, KEYS, GPU, parent=parent)
    except EditRefusedError as error:
        return error.kind
    return "none"


@table_of_cases()
def test_an_edit_is_one_or_its_mistake_is_named(edits: list[list[str]], says: str) -> None:
    assert mistake(edited(*((old, new) for old, new in edits))) == says


def test_a_text_may_grow_by_so_much_and_no_more_over_all_its_edits() -> None:
    line = "EF_DEV float quad_max(float x) {"
    half = "".join(f"constexpr int kSpare{n} = 1;\n" for n in range(MOST_GROWTH // 52))
    first = edited((line, f"{half}{line}"))
    assert mistake(first) == "none"
    more = "".join(f"constexpr int kMore{n} = 1;\n" for n in range(MOST_GROWTH // 45))
    assert mistake(edited((line, f"{more}{line}"), parent=first), first) == "grows too much"


def test_an_edited_text_is_rendered_where_it_is_asked_for_and_nowhere_else() -> None:
    child = edited(("x += ef::shfl_xor(x, 1);", "x = x + ef::shfl_xor(x, 1);"))
    made = render_edited(child, KEYS[0], GPU)
    assert isinstance(made, Candidate)
    assert made.genome == child
    assert made.source_sha != render(PARENT, KEYS[0], GPU).source_sha
    assert "x = x + ef::shfl_xor" in kernel_body(child, KEYS[0], GPU)
    assert child.root == PARENT
    assert child.id != PARENT.id
    assert not load_family("flash_mma").space(KEYS, GPU).has_point(child)
    with pytest.raises(UsageError, match=f"evoflash export {child.id[:8]} -o kernel.cu"):
        render(child, KEYS[0], GPU)


def test_an_edit_of_a_text_that_the_family_does_not_write_any_more_is_one_line() -> None:
    with pytest.raises(UsageError, match="does not write any more"):
        render_edited(edited(("no such text", "x")), KEYS[0], GPU)
