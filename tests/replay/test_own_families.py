"""Recorded spaces of our families: a replay knows what a search of them knows."""

from dataclasses import replace

import pytest
from places import ROOT

from evoflash.kernels.family import load_family
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.replay.kernel_tuner import read_recording, shipped_spaces, with_family
from evoflash.specs import load_gpu

SPACES = ROOT / "scripts" / "searches" / "records" / "spaces"


@pytest.fixture(scope="module")
def short():
    return read_recording(SPACES / "short-h200.json.gz")


def test_a_recorded_space_knows_how_its_genomes_fill_the_gpu_as_the_search_does(short):
    searched = proportions_on(parse_problem(short.problem), load_family("flash_wgmma"), load_gpu("h200"))
    genomes = short.space.genomes[::200]
    assert [short.space.proportions.of(genome) for genome in genomes] == [*map(searched.of, genomes)]


def test_its_blocks_are_the_familys_without_the_genes_that_it_lacks(short):
    recorded = {param.name for param in short.space.params}
    blocks = load_family("flash_wgmma").blocks
    assert {name for block in short.space.blocks for name in block} == recorded & set().union(*blocks)
    assert short.space.blocks[0] == tuple(name for name in blocks[0] if name in recorded)


@pytest.mark.parametrize("unknown", ["family", "version", "gpu", "problem"])
def test_of_what_is_not_known_here_a_space_is_its_record_alone(short, unknown):
    plain = replace(short, space=replace(short.space, blocks=(), proportions=None))
    changed = {
        "family": lambda: replace(plain, space=replace(plain.space, family="flash_of_another")),
        "version": lambda: replace(plain, space=replace(plain.space, version=99)),
        "gpu": lambda: replace(plain, device="gpu of another"),
        "problem": lambda: replace(plain, problem="their problem 3 x 4"),
    }[unknown]()
    assert with_family(changed) == changed


@pytest.mark.parametrize("path", shipped_spaces(), ids=lambda path: path.name.partition("-")[0])
def test_a_space_of_other_kernels_has_neither(path):
    space = read_recording(path).space
    assert (space.blocks, space.proportions) == ((), None)
