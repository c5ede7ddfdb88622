"""The file of shapes: three forms that say the same, and one clear line for everything else."""

import json

import pytest
from tables import table_of_cases

from evoflash.app.shape_files import read_mix
from evoflash.errors import UsageError
from evoflash.problem import parse_workload

LINES = "# a mix\nmission weight=3  # prefill\n\ns2k_d64,causal\n"
TOML = '[[shape]]\nproblem = "mission"\nweight = 3\n[[shape]]\nproblem = "s2k_d64,causal"\n'
JSON = json.dumps([{"problem": "mission", "weight": 3}, "s2k_d64,causal"])


def read(folder, text, name="mix.txt"):
    (folder / name).write_text(text)
    return read_mix(folder / name)


@pytest.mark.parametrize(("name", "text"), [("m.txt", LINES), ("m.toml", TOML), ("m.json", JSON)])
def test_every_form_gives_shapes_whose_weights_add_up_to_one(tmp_path, name, text):
    found = read(tmp_path, text, name)

    assert [str(shape.workload) for shape in found] == [
        str(parse_workload("mission")),
        str(parse_workload("s2k_d64,causal")),
    ]
    assert [shape.weight for shape in found] == [0.75, 0.25]


def test_a_shape_that_is_named_twice_counts_the_sum(tmp_path):
    found = read(tmp_path, "mission weight=1\ns1k_d64 weight=1\nmission weight=2\n")

    assert [shape.weight for shape in found] == [0.75, 0.25]


def test_a_single_causal_query_is_a_shape_without_a_mask(tmp_path):
    (found,) = read(tmp_path, "b=4,h=8,sq=1,skv=1024,d=64,causal")

    assert found.workload == parse_workload("b=4,h=8,sq=1,skv=1024,d=64")


def test_the_shipped_mix_has_24_shapes_of_two_head_dimensions():
    from places import ROOT

    found = read_mix(ROOT / "docs" / "examples" / "serving-mix.txt")

    assert len(found) == 24
    assert {shape.workload.head_dim for shape in found} == {64, 128}


@table_of_cases(more=[("m.json", "[[" * 100_000, "not well formed")])
def test_a_file_that_makes_no_sense_is_one_line_that_says_where(tmp_path, name, text, said):
    with pytest.raises(UsageError) as error:
        read(tmp_path, text, name)

    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read_mix(tmp_path / "none.txt")
