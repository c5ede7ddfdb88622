"""All checks as one function: the same answers as one by one, and errors in words."""

import numpy as np
import pytest

from evoflash.errors import TemplateError
from evoflash.kernels import family as validity
from evoflash.kernels.expression import Expression
from evoflash.kernels.family import known_families, load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

KNOWN = {"head_dim": 64}
PROBLEMS = {
    "attention": ("mission", "b=1,h=10,hkv=2,s=300,d=128,causal,dtype=bf16"),
    "linear": ("linear:8b_o,m=8,dtype=fp8b128", "linear:8b_o,m=1"),
    "paged_attention": ("serving_llama8b_b1_8k", "serving_gemma3_b16_16k_w1024"),
}


def expression(text):
    return Expression(text, "x.cu.j2: check.a", (bool,))


def number(text):
    return Expression(text, "x.cu.j2: let.a", (int,))


@pytest.mark.parametrize("name", known_families())
def test_all_checks_at_once_and_one_by_one_say_the_same(name):
    family, answers = load_family(name), []
    gpu = next(gpu for gpu in map(load_gpu, ("h200", "l4")) if family.supports(gpu))
    for problem in PROBLEMS[family.op]:
        space = family.space(parse_problem(problem).compile_keys(gpu.arch), gpu)
        assert space.passes is not None
        rng = np.random.default_rng(0)
        for _ in range(200):
            genome = space.genome({p.name: p.values[rng.integers(len(p.values))] for p in space.params})
            answers.append(space.is_valid(genome))
            assert answers[-1] == (not space.violations(genome)), genome
    assert len(set(answers)) == 2 or name == "flash_wgmma"  # where one point in 700 is valid
    assert space.is_valid(space.sample(np.random.default_rng(0)))


def test_what_a_check_derives_is_computed_in_order():
    let = {"tile": number("warps * 16"), "bytes": number("tile * head_dim")}
    holds = validity.compile_checks({"fits": expression("bytes <= 4096")}, let, KNOWN)
    assert holds({"warps": 4})
    assert not holds({"warps": 8})


OTHER = ("'a' is string", "words|length", "[x for x in y]", "exit()", "gpu.__class__", "min(*a)", "a ** b")


@pytest.mark.parametrize("text", OTHER)
def test_what_is_no_part_of_an_expression_is_refused_when_it_is_read(text):
    with pytest.raises(TemplateError, match=r"x\.cu\.j2: check\.a = .* does not parse: ") as refused:
        expression(text)
    assert "\n" not in str(refused.value)


def test_words_of_toml_and_lists_are_parts_of_an_expression():
    assert expression("mode in ['a', 'b'] if is_long else true")({"mode": "c", "is_long": False})
    assert not expression("mode in ['a', 'b']\n and true")({"mode": "c"})


def test_a_condition_on_a_value_that_is_not_there_says_so():
    holds = validity.condition(expression("warps == 4"), KNOWN)
    assert holds({"warps": 4})
    with pytest.raises(TemplateError, match="warps"):
        holds({})
