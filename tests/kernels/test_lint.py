"""The lint: what it refuses, on which line and with what to write instead; and that kernels pass it."""

import pytest
from tables import table_of_cases

from evoflash.champions import adapt, champions
from evoflash.kernels.family import load_family
from evoflash.kernels.kernel_text import kernel_text
from evoflash.kernels.lint import lint
from evoflash.kernels.renderer import render
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

ARCHIVED = [(gpu, each) for gpu in ("h200", "h100") for each in champions(gpu)]


@table_of_cases()
def test_what_no_kernel_may_hold_is_refused_on_its_line(text, what, line):
    found = lint(f"// a comment\n{text}\n")

    assert [each.what for each in found] == [what]
    assert found[0].line == 1 + (line or 1)
    assert found[0].instead
    assert str(found[0]) == f"{what} at line {found[0].line} ({found[0].instead})"


@table_of_cases()
def test_what_a_kernel_may_hold_passes(text):
    assert lint(text) == ()


@pytest.mark.sample(12)
@pytest.mark.parametrize(("gpu", "champion"), ARCHIVED, ids=lambda each: getattr(each, "problem", each))
def test_every_archived_kernel_passes(gpu, champion):
    spec, problem = load_gpu(gpu), parse_problem(champion.problem)
    keys = problem.compile_keys(spec.arch)
    genome = adapt(champion, load_family(champion.genome.family).space(keys, spec))
    for key in keys:
        assert lint(render(genome, key, spec).source) == ()


@table_of_cases()
def test_a_text_is_taken_apart_as_compilers_do(text, names):
    assert list(kernel_text(text).names) == names


def test_lines_are_counted_through_splices_and_comments():
    text = kernel_text("one \\\n two /* \n */ three\n// four \\\n five\nsix")
    assert [(name, text.line(at)) for name, at in zip(text.names, text.places, strict=True)] == [
        ("one", 1),
        ("two", 2),
        ("three", 3),
        ("six", 6),
    ]
