"""Template headers: what they declare, and what a malformed one is told."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from places import TESTS
from tables import table_of_cases

from evoflash.errors import TemplateError, UsageError
from evoflash.kernels.expression import Expression
from evoflash.kernels.family import known_families, load_family, read_family
from evoflash.kernels.header import body_of, gene_notes, header_of
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

HEADER = (TESTS / "kernels" / "tiny.cu.j2").read_text()


def family_from(tmp_path: Path, text: str):
    path = tmp_path / "tiny.cu.j2"
    path.write_text(text)
    return read_family(path)


def test_a_header_becomes_a_family(tmp_path):
    family = family_from(tmp_path, HEADER)

    assert (family.name, family.version, family.entry) == ("tiny", 1, "tiny")
    assert family.summary == "A family for tests."


def test_an_inactive_param_is_absent_from_the_genome(tmp_path):
    space = family_from(tmp_path, HEADER).space(
        (AttentionKey(64, "fp16", False, 1, "sm_89"),), load_gpu("l4")
    )

    assert "depth" not in space.genome({"mode": "a", "depth": 3}).as_dict()
    assert space.genome({"mode": "b", "depth": 3}).as_dict()["depth"] == 3


@table_of_cases()
def test_a_malformed_header_names_the_file_and_the_key(tmp_path, old, new, mentions):
    assert old in HEADER

    with pytest.raises(TemplateError) as caught:
        family_from(tmp_path, HEADER.replace(old, new))

    assert "tiny.cu.j2" in str(caught.value)
    assert mentions in str(caught.value)
    assert "\n" not in str(caught.value)


LIKE = """{#---
# Another one.
like = "tiny"
version = 2
entry = "small"
for = "seq_q > 1"
[params]
mode = []
lanes = [4, 8]  # of a warp
[when]
depth = "warps == 2"
[let]
threads = "lanes * warps"
---#}
"""


def like_tiny(tmp_path: Path, text: str = LIKE):
    (tmp_path / "tiny.cu.j2").write_text(HEADER)
    path = tmp_path / "small.cu.j2"
    path.write_text(text)
    return path


def test_a_family_like_another_says_what_differs(tmp_path):
    family = read_family(path := like_tiny(tmp_path))

    assert (family.name, family.version, family.entry, family.summary) == (
        "small",
        2,
        "small",
        "Another one.",
    )
    assert [param.name for param in family.params] == ["warps", "depth", "lanes"]
    assert (family.when["depth"].text, family.let["threads"].text) == ("warps == 2", "lanes * warps")
    assert list(family.check) == ["fits"]
    assert body_of(path) == "// body\n"
    assert gene_notes(header_of(path)) == {"lanes": "of a warp"}


def test_a_family_like_none_that_there_is_names_the_file(tmp_path):
    with pytest.raises(TemplateError, match=r"small\.cu\.j2: like: there is no family 'huge'"):
        read_family(like_tiny(tmp_path, LIKE.replace('"tiny"', '"huge"')))


def test_a_search_asks_only_the_families_that_are_meant_for_a_shape(tmp_path):
    family, gpu = read_family(like_tiny(tmp_path)), load_gpu("l4")

    assert family.suits(parse_problem("mission"), gpu)
    assert not family.suits(parse_problem("mission,sq=1"), gpu)
    assert family.suits(parse_problem("mission+mission,sq=1"), gpu)


def test_an_expression_that_needs_an_inactive_param_is_refused(tmp_path):
    with pytest.raises(TemplateError, match=r"let\.threads"):
        family_from(tmp_path, HEADER.replace('"32 * warps"', '"32 * warps * depth"'))


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(UsageError, match="flash_mma"):
        load_family("flash_nope")


def test_an_exact_arch_admits_only_itself(tmp_path):
    family = family_from(tmp_path, HEADER.replace('["sm_80+"]', '["sm_90a"]'))

    assert family.supports(load_gpu("h200"))
    assert not family.supports(load_gpu("l4"))


def test_flash_mma_has_ten_thousand_valid_points_on_an_l4():
    space = load_family("flash_mma").space((AttentionKey(64, "fp16", False, 1, "sm_89"),), load_gpu("l4"))
    rng = np.random.default_rng(0)
    draws = 30_000
    valid = sum(space.draw(rng) is not None for _ in range(draws))

    assert space.cardinality * valid / draws > 10_000 * 2  # twice: the count is a sample's


def test_a_launch_covers_every_query_row():
    family, gpu = load_family("flash_mma"), load_gpu("l4")
    genome = family.space((AttentionKey(64, "fp16", False, 1, "sm_89"),), gpu).genome(
        {"warps": 4, "rows_per_warp": 16}
    )

    (launch,) = family.launches(genome, AttentionWorkload(2, 4, 4, 65, 7, 64), gpu)

    assert launch.grid == (2, 4, 2)
    assert launch.block == (128, 1, 1)


TWO_LAUNCHES = (
    HEADER.replace('entry = "tiny"', 'entry = "tiny"\nworkspace = "(warps - 1) * batch * heads * seq_q * 4"')
    .replace("[launch]", "[[launch]]")
    .replace(
        "smem = 1024\n",
        'smem = 1024\n[[launch]]\nentry = "tiny_combine"\nwhen = "warps > 1"\n'
        'grid = ["seq_q", "heads", "batch"]\nblock = [64, 1, 1]\n',
    )
)


@pytest.mark.parametrize(
    ("warps", "entries", "workspace_bytes"),
    [(1, ("tiny",), 0), (2, ("tiny", "tiny_combine"), 2 * 4 * 65 * 4)],
)
def test_a_genome_has_the_launches_and_the_workspace_that_its_values_ask_for(
    tmp_path, warps, entries, workspace_bytes
):
    family, gpu = family_from(tmp_path, TWO_LAUNCHES), load_gpu("l4")
    genome = family.space((AttentionKey(64, "fp16", False, 1, "sm_89"),), gpu).genome({"warps": warps})

    launches = family.launches(genome, AttentionWorkload(2, 4, 4, 65, 7, 64), gpu)

    assert tuple(launch.entry for launch in launches) == entries
    assert {launch.workspace_bytes for launch in launches} == {workspace_bytes}
    assert launches[-1].smem_bytes == (1024 if warps == 1 else 0)


@pytest.mark.parametrize("name", known_families())
def test_names_for_thousands_of_genomes_are_those_for_one(name):
    family, gpu = load_family(name), load_gpu("h200")
    problem = parse_problem(family.usual_problem)
    (key,) = problem.compile_keys(gpu.arch)
    space, quick = family.space((key,), gpu), family.quick_names(key, gpu)
    near = (each for seed in family.seeds_for(problem, space, gpu)[:4] for each in space.neighbours(seed))
    for genome in islice(near, 40):
        assert quick(genome.as_dict()) == family.names(genome.as_dict(), key, gpu)


def test_a_gene_can_depend_on_the_mask(tmp_path):
    family = family_from(tmp_path, HEADER.replace("\"mode == 'b'\"", '"causal"'))
    full, causal = (
        family.space((AttentionKey(64, "fp16", mask, 1, "sm_89"),), load_gpu("l4")) for mask in (False, True)
    )

    assert "depth" not in full.genome({}).as_dict()
    assert "depth" in causal.genome({}).as_dict()


def test_seeds_for_a_class_of_shapes_come_first_and_only_there(tmp_path):
    seeds = '[seeds]\nany = {warps = 1}\nshort = {warps = 2, for = "seq_q <= 128"}\n[launch]\n'
    family, gpu = family_from(tmp_path, HEADER.replace("[launch]\n", seeds)), load_gpu("l4")
    space = family.space((AttentionKey(64, "fp16", False, 1, "sm_89"),), gpu)

    def warps(problem: str) -> list[object]:
        found = family.seeds_for(parse_problem(problem), space, gpu)
        return [genome.as_dict()["warps"] for genome in found]

    assert warps("short128") == [2, 1]
    assert warps("mission") == [1]


def test_an_unknown_word_for_the_model_is_refused(tmp_path):
    with pytest.raises(TemplateError, match=r"model\.row"):
        family_from(tmp_path, HEADER.replace("rows = 16", "row = 16"))


def test_names_known_beforehand_give_way_to_those_of_the_call():
    condition = Expression("width > 2 and depth == 1", "tiny: check.fits", (bool,))
    known = condition.bind({"width": 1, "depth": 1})

    assert known({}) is condition({"width": 1, "depth": 1}) is False
    assert known({"width": 3}) is True
    assert known({}) is False  # a call leaves nothing behind
    with pytest.raises(TemplateError, match="depth"):
        condition.bind({"width": 3})({})


SEEDS = 'second = {warps = 2, mode = "a"}\nfirst = {warps = 1, mode = "a", for = "seq_q > 8"}\n'


def with_seeds(tmp_path: Path, text: str) -> Path:
    """The family's folder, with a file of seeds in it."""
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "seeds.toml").write_text(text)
    return tmp_path


def test_seeds_may_stand_in_a_file_of_their_own(tmp_path):
    family = family_from(with_seeds(tmp_path, SEEDS), HEADER)
    in_header = family_from(tmp_path / "tiny", HEADER.replace("[launch]", f"[seeds]\n{SEEDS}[launch]"))

    assert [(seed.name, seed.values) for seed in family.seeds] == [
        ("second", {"warps": 2, "mode": "a"}),
        ("first", {"warps": 1, "mode": "a"}),
    ]
    assert [(s.name, s.values, s.fits.text) for s in family.seeds] == [
        (s.name, s.values, s.fits.text) for s in in_header.seeds
    ]


@table_of_cases()
def test_a_malformed_seed_names_the_file_and_the_seed(tmp_path, text, mentions):
    with pytest.raises(TemplateError) as caught:
        family_from(with_seeds(tmp_path, text), HEADER)

    assert mentions in str(caught.value)
    assert "\n" not in str(caught.value)


def test_seeds_in_two_places_are_refused(tmp_path):
    with pytest.raises(TemplateError, match="header has seeds, and so has tiny/seeds"):
        family_from(with_seeds(tmp_path, SEEDS), HEADER.replace("[launch]", f"[seeds]\n{SEEDS}[launch]"))
