"""Lattices and their recording: which genomes they have, what is kept of each, and that it goes on.

On the GPU's side stands a function that knows no kernel; compilers, processes, worker and files are real.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from evoflash.champions import champion_of
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Rung, Status, Timing
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.process import Jobs
from evoflash.replay.comparison import compare
from evoflash.replay.kernel_tuner import read_recording
from scripts.searches import record_lattice
from scripts.searches.lattice import genomes, params_of, read_lattice

FOLDER = Path(__file__).parent / "lattices"
SMALL = """
problem = "b=1,h=2,s=64,d=64"
gpu = "l4"
family = "flash_simt"
[fixed]
warps = 2
[genes]
lanes_per_row = [1, 2, 4]
split = ["dims", "keys"]
vec = [4, 8]
"""


@pytest.fixture
def lattice(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL, encoding="utf-8")
    return read_lattice(path)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_the_lattices_that_stand_here_are_of_problems_that_no_champion_knows(path) -> None:
    lattice = read_lattice(path)

    assert champion_of(lattice.problem, lattice.gpu.name) is None
    assert lattice.combinations > 9_000


@pytest.mark.slow
def test_a_lattice_has_two_thousand_valid_genomes() -> None:
    lattice = read_lattice(FOLDER / "decode.toml")
    found = genomes(lattice)

    assert 2_000 <= len(set(found)) == len(found) <= 2_600
    assert all(lattice.space.is_valid(genome) for genome in found[::50])


def test_a_lattice_is_every_valid_combination_once_in_an_order_of_its_seed(lattice) -> None:
    found = genomes(lattice)

    # `split` is inactive where one lane has the row.
    assert len(found) == len(set(found)) == 2 * (1 + 2 * 2)
    assert {genome.as_dict()["warps"] for genome in found} == {2}
    assert found == genomes(lattice)
    assert found != genomes(lattice, seed=1)
    assert set(found) == set(genomes(lattice, seed=1))


def test_params_have_the_values_that_occur(lattice) -> None:
    params = {param.name: param.values for param in params_of(lattice, genomes(lattice))}

    assert params["lanes_per_row"] == (1, 2, 4)
    assert params["warps"] == (2,)
    assert "pad" not in params  # never active in this lattice


def test_a_gene_or_a_value_that_the_family_lacks_is_the_users_mistake(tmp_path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(SMALL.replace("vec = [4, 8]", "vec = [4, 9]"), encoding="utf-8")
    with pytest.raises(UsageError, match="vec=9"):
        read_lattice(path)
    path.write_text(SMALL + "lanes = [1]\n", encoding="utf-8")
    with pytest.raises(UsageError, match="lanes"):
        read_lattice(path)


def right_by_its_name(task):
    """One genome in sixteen is wrong."""
    if task.genome_id.startswith("0"):
        return GpuOutcome(task.genome_id, Status.CORRECTNESS, Rung.SMOKE, "wrong")
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)


def times_by_its_name(task, looked):
    """A task's time, from the genome's id."""
    us = 1.0 + int(task.genome_id[:4], 16) / 1000
    noted = {"samples_us": f"{us:.3f} {us + 0.25:.3f}"}
    timing = Timing(str(task.timed[0][0]), "cold", us, us, us, n=2)
    timed = {"score_us": us, "environment": noted, "timings": (timing,)}
    return replace(looked, rung=Rung.DONE, **timed)


def nothing(*_):
    """A GPU that is well, and no references to compute."""


JOBS = Jobs(
    warm_up=nothing, precompute_references=nothing, check=right_by_its_name, time_correct=times_by_its_name
)


def given(tmp_path, **changed):
    usual = {"output": tmp_path / "small.json.gz", "seconds": 600.0, "workers": 2, "limit": None}
    return argparse.Namespace(**usual | {"no_preflight": True} | changed)


@pytest.mark.slow
def test_a_recording_keeps_every_outcome_and_can_be_searched(lattice, tmp_path) -> None:
    found = record_lattice.record(given(tmp_path, no_preflight=False), lattice, JOBS)

    recording = read_recording(tmp_path / "small.json.gz")
    assert dict(recording.space.outcomes) == found
    assert set(found) == set(genomes(lattice))
    assert (recording.problem, recording.device) == (str(lattice.problem), "l4")
    assert recording.basis is Basis.MEASURED
    assert recording.notes["proof"] == record_lattice.PROOF
    for genome, outcome in found.items():
        assert outcome.compile_s > 0
        if genome.id.startswith("0"):
            assert (outcome.status, outcome.score_us, outcome.reason) == (Status.CORRECTNESS, None, "wrong")
        else:
            assert outcome.times_us[1] == pytest.approx(outcome.times_us[0] + 0.25)
    assert compare(recording, ["uniform"], budget=5, repeats=2).optimum_us == min(recording.scores_us)


@pytest.mark.slow
def test_a_recording_goes_on_where_it_ended(lattice, tmp_path, capsys) -> None:
    first = record_lattice.record(given(tmp_path, limit=4), lattice, JOBS)
    second = record_lattice.record(given(tmp_path), lattice, JOBS)
    record_lattice.record(given(tmp_path), lattice, JOBS)

    assert list(first) == genomes(lattice)[:4]
    assert list(second) == genomes(lattice)
    said = capsys.readouterr().out
    assert "4 are there, 6 to go" in said
    assert "10 are there, 0 to go" in said


@pytest.mark.slow
def test_when_the_time_is_over_what_was_found_is_kept(lattice, tmp_path) -> None:
    found = record_lattice.record(given(tmp_path, seconds=0.0), lattice, JOBS)

    assert len(found) == 1
    assert set(read_recording(tmp_path / "small.json.gz").space.outcomes) == set(found)


@pytest.mark.gpu
def test_on_the_gpu_a_kernel_gets_a_time_and_a_wrong_one_does_not(tmp_path) -> None:
    from evoflash.gpu.launcher import present_spec

    spec = present_spec(None)
    path = tmp_path / "small.toml"
    path.write_text(SMALL.replace('"l4"', f'"{spec.name}"'), encoding="utf-8")
    lattice = read_lattice(path)

    found = record_lattice.record(given(tmp_path, limit=4), lattice)

    assert all(outcome.status is Status.CORRECT for outcome in found.values())
    assert all(5 <= len(outcome.times_us) <= 10 for outcome in found.values())
    assert all(min(o.times_us) <= o.score_us <= max(o.times_us) for o in found.values())
