"""Strategies on a recorded space: the contract there, the score, and the commands."""

import gzip
import json
import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import click
import numpy as np
import pytest
from command_cases import EXIT_NO_KERNEL, EXIT_USAGE, one_line
from forked import evoflash
from places import FIXTURES
from strategy_cases import Notebook

from evoflash.app.recordings import record, to_recording
from evoflash.app.search.limits import Limits
from evoflash.app.search.recorded import search_recording
from evoflash.cli.commands import search as search_command
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.kernels.family import families_for
from evoflash.problem import parse_problem
from evoflash.replay.comparison import compare, curves, parse_strategies, random_expectation, standing
from evoflash.replay.kernel_tuner import read_recording
from evoflash.replay.recorded_space import RecordedOutcome, Recording, ReplayedEvaluator, recorded_space
from evoflash.search import search
from evoflash.space import Genome, Param
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.strategies import STRATEGIES, make_strategy

MISSION = str(parse_problem("mission"))
FIXTURE = FIXTURES / "recorded.json.gz"
EVERY = pytest.mark.parametrize("name", sorted(STRATEGIES))


@pytest.fixture(scope="module")
def stencil() -> Recording:
    return read_recording(FIXTURE)


def line(*times_us: float | None) -> Recording:
    """A recorded space of one param, with these times in its order; None is a crash."""
    outcomes = {
        Genome("line", 1, (("n", n),)): RecordedOutcome(Status.RUNTIME, Rung.SMOKE)
        if us is None
        else RecordedOutcome(Status.CORRECT, Rung.DONE, "", us)
        for n, us in enumerate(times_us)
    }
    return Recording(recorded_space("line", (Param("n", tuple(range(len(times_us)))),), outcomes), "p", "g")


def replayed(
    recording: Recording,
    name: str,
    budget: int,
    *,
    seed: int = 0,
    ahead: int = 1,
    notebook: Notebook | None = None,
) -> Notebook:
    notebook = Notebook() if notebook is None else notebook
    strategy = make_strategy(name, recording.space, seed=seed)
    search(strategy, ReplayedEvaluator(recording, ahead=ahead), notebook, "run", budget=budget)
    return notebook


# ---- every strategy on a recorded space


@EVERY
@pytest.mark.cover
@pytest.mark.parametrize("ahead", [1, 5])
def test_only_recorded_genomes_are_proposed_and_none_twice(name, ahead, stencil):
    genomes = [proposal.genome for proposal in replayed(stencil, name, 90, ahead=ahead).proposals]

    assert len(set(genomes)) == len(genomes) == 90
    assert all(genome in stencil.space.outcomes for genome in genomes)


@EVERY
def test_a_recorded_space_is_used_up_and_then_nothing(name):
    recording = line(5.0, None, 3.0, 9.0, None, 1.0, 2.0)
    notebook = replayed(recording, name, 100)

    assert {proposal.genome for proposal in notebook.proposals} == set(recording.space)
    assert len(notebook.rows) == 7


@EVERY
@pytest.mark.cover
@pytest.mark.parametrize("stop", [5, 27, 33, 48])
@pytest.mark.sample(3)
def test_a_resumed_replay_is_an_unbroken_one(name, stop, stencil):
    unbroken = replayed(stencil, name, 60)
    broken = replayed(stencil, name, stop)

    assert replayed(stencil, name, 60, notebook=broken).proposals == unbroken.proposals


@pytest.mark.parametrize("name", ["evolution", "surrogate", "tpe", "nsga2"])
@pytest.mark.sample(2)
@pytest.mark.full
def test_what_learns_scores_above_random_search(name, stencil):
    comparison = compare(stencil, [name], budget=100, repeats=6)

    assert comparison.standings[0].score > 0.2


@pytest.mark.full
def test_random_search_scores_nothing_beside_its_expectation(stencil):
    comparison = compare(stencil, ["uniform"], budget=100, repeats=60)
    uniform, random = comparison.standings[0], comparison.random

    assert abs(uniform.score) < 0.15
    assert uniform.score_low < 0 < uniform.score_high
    assert uniform.near_share == pytest.approx(random.near_share, abs=0.2)
    assert (random.score, random.strategy) == (0.0, "random, expected")


# ---- the score


def test_the_expected_best_of_random_draws_is_exact():
    every = np.array([1.0, 2.0, 2.0, 5.0, 11.0, 11.0])
    counted = [
        np.mean([min(draw) for draw in combinations(every, drawn)]) for drawn in range(1, len(every) + 1)
    ]

    assert random_expectation(every, 6) == pytest.approx(counted)


def test_random_searchs_chance_to_come_near_is_exact():
    recording = line(100.0, 104.0, *(200.0 + n for n in range(8)))
    random = compare(recording, [], budget=3, repeats=1).random

    assert random.near_share == pytest.approx(1 - (8 * 7 * 6) / (10 * 9 * 8))
    assert random.near_after == 3  # 1 - 8*7/(10*9) = 0.38 after two


def test_failures_count_as_the_slowest_in_the_expectation():
    recording = line(1.0, 3.0, None, None)

    assert compare(recording, [], budget=1, repeats=1).random.best_over_optimum == pytest.approx(2.5)


def test_the_optimum_at_once_scores_one_and_random_searchs_curve_nothing():
    expected = random_expectation(np.arange(1.0, 401.0), 100)
    perfect, average = np.ones((3, 100)), np.stack([expected] * 3)

    assert standing("s", perfect, expected, 1.0).score == pytest.approx(1.0)
    assert standing("s", average, expected, 1.0).score == pytest.approx(0.0)
    assert standing("s", average + 1.0, expected, 1.0).score < 0


def test_the_score_looks_at_the_window_alone():
    expected = random_expectation(np.arange(1.0, 401.0), 60)
    late = np.ones((1, 60))
    late[:, :19] = 400.0

    assert standing("s", late, expected, 1.0).score == pytest.approx(1.0)
    late[:, 19] = 400.0
    assert standing("s", late, expected, 1.0).score < 1.0


def test_medians_say_never_when_most_repeats_never_came_near():
    expected = random_expectation(np.arange(1.0, 401.0), 30)
    found, missed = np.full(30, 2.0), np.full(30, 2.0)
    found[7:] = 1.04

    most = standing("s", np.stack([found, found, missed]), expected, 1.0)
    few = standing("s", np.stack([found, missed, missed]), expected, 1.0)
    assert (most.near_after, most.near_share) == (8, pytest.approx(2 / 3))
    assert (few.near_after, few.best_over_optimum) == (None, 2.0)


def test_curves_fall_and_start_at_the_slowest_time_until_something_works():
    recording = line(None, None, 7.0, 9.0, 3.0)

    assert curves(recording, "exhaustive", 5, 1).tolist() == [[9.0, 9.0, 7.0, 7.0, 3.0]]


def test_a_lower_bound_is_no_time_to_have_found():
    recording = line(4.0, 2.0, 3.0)
    first = recording.space.genomes[1]
    bound = RecordedOutcome(Status.CORRECT, Rung.TIMING, "", 2.0, is_lower_bound=True)
    space = recorded_space("line", recording.space.params, {**recording.space.outcomes, first: bound})
    censored = Recording(space, "p", "g")

    assert compare(censored, [], budget=3, repeats=1).optimum_us == 3.0
    assert curves(censored, "exhaustive", 3, 1).tolist() == [[4.0, 4.0, 3.0]]


def test_a_budget_beyond_the_space_is_the_space():
    comparison = compare(line(*range(1, 31)), ["uniform"], budget=1000, repeats=3)

    assert comparison.budget == 30
    assert comparison.standings[0].best_over_optimum == 1.0
    assert math.isfinite(comparison.standings[0].score)


def test_a_space_of_one_point_has_nothing_to_score():
    assert compare(line(2.0), ["uniform"], budget=5, repeats=2).standings[0].score == 0.0


def test_a_record_without_a_correct_configuration_is_refused():
    with pytest.raises(UsageError, match="no configuration of p was correct"):
        compare(line(None, None), ["uniform"], budget=5, repeats=1)


def test_names_are_a_list_or_all():
    assert parse_strategies("all") == tuple(STRATEGIES)
    assert parse_strategies("tpe, uniform,tpe") == ("tpe", "uniform")
    with pytest.raises(UsageError, match="'annealing'"):
        parse_strategies("tpe,annealing")


# ---- from the store and into it


def stored(
    path: Path, outcomes: list[Evaluation], *, basis: Basis = Basis.MEASURED, gpu_hash: str = "x"
) -> None:
    """Add a run on mission and l4 to a database; `outcomes` may leave everything but their own to it."""
    with open_store(str(path)) as store:
        key = RunKey(MISSION, "l4", basis, "uniform", 0)
        run = store.begin(key, gpu_hash=gpu_hash, budget=9, argv=[], environment={}, fresh=True)
        for outcome in outcomes:
            evaluation = replace(outcome, problem=MISSION, gpu="l4", basis=basis)
            store.add(run, evaluation, Proposal(outcome.genome))


def ended(genome: Genome, us: float | None, **fields: object) -> Evaluation:
    status, rung = (Status.CORRECT, Rung.DONE) if us else (Status.COMPILE, Rung.COMPILE)
    evaluation = Evaluation(genome, "", "", Basis.MEASURED, status, rung, "" if us else "ptxas", score_us=us)
    return replace(evaluation, **fields)


@pytest.fixture(scope="module")
def genomes() -> list[Genome]:
    """A few valid genomes of the family that l4 searches at mission."""
    spec = load_gpu("l4")
    space = families_for(spec)[0].space(parse_problem("mission").compile_keys(spec.arch), spec)
    rng = np.random.default_rng(0)
    return list(dict.fromkeys(space.sample(rng) for _ in range(8)))


def test_a_recorded_database_is_replayed_as_it_was(tmp_path, genomes):
    first, second, third, twin = genomes[:4]
    found = [
        ended(first, 20.0),
        ended(second, None),
        ended(third, 1 / 3 * 10, timings=(Timing(MISSION, "cold", 30.0, 30.0, 30.0, 1, censored=True),)),
        ended(twin, 20.0, duplicate_of=first.id),
    ]
    stored(tmp_path / "a.db", found)
    record(str(tmp_path / "a.db"), tmp_path / "a.json.gz", problem="mission", gpu="l4", family=None)
    recording = read_recording(tmp_path / "a.json.gz")

    assert list(recording.space) == [first, second, third, twin]
    assert (recording.problem, recording.device, recording.basis) == (MISSION, "l4", Basis.MEASURED)
    assert recording.scores_us == [20.0, 20.0]
    outcomes = list(recording.space.outcomes.values())
    assert (outcomes[1].status, outcomes[1].rung, outcomes[1].reason) == (
        Status.COMPILE,
        Rung.COMPILE,
        "ptxas",
    )
    assert outcomes[2].is_lower_bound
    assert {p.genome for p in replayed(recording, "evolution", 50).proposals} == {first, second, third, twin}


def test_a_screened_genome_keeps_its_time_and_that_it_was_not_proven(tmp_path, genomes):
    screened = ended(genomes[1], 30.0, status=Status.SCREENED, rung=Rung.TIMING)
    stored(tmp_path / "a.db", [ended(genomes[0], 20.0), screened])
    record(str(tmp_path / "a.db"), tmp_path / "a.json", problem="mission", gpu="l4", family=None)
    recording = read_recording(tmp_path / "a.json")

    assert recording.scores_us == [20.0]
    assert recording.space.outcomes[genomes[1]].status is Status.SCREENED
    told = replayed(recording, "uniform", 2)
    assert {e.score_us: e.is_correct for _, e in told.rows} == {20.0: True, 30.0: False}


def test_the_newest_outcome_of_a_genome_is_the_one_recorded(tmp_path, genomes):
    stored(tmp_path / "a.db", [ended(genomes[0], 30.0), ended(genomes[1], 5.0)])
    stored(tmp_path / "a.db", [ended(genomes[0], 20.0)])

    with open_store(str(tmp_path / "a.db")) as store:
        found = to_recording(store, problem="mission", gpu="l4", family=None, basis=Basis.MEASURED)
    assert found.scores_us == [5.0, 20.0]


def test_other_bases_and_other_descriptions_of_the_gpu_are_not_mixed_in(tmp_path, genomes):
    stored(tmp_path / "a.db", [ended(genomes[0], 1.0)], gpu_hash="old")
    stored(tmp_path / "a.db", [ended(genomes[1], 2.0)], gpu_hash="new")
    stored(tmp_path / "a.db", [ended(genomes[2], 3.0)], basis=Basis.ESTIMATED)

    for estimated, scores in ((False, [2.0]), (True, [3.0])):
        path = tmp_path / "a.json"
        record(str(tmp_path / "a.db"), path, problem="mission", gpu="l4", family=None, estimated=estimated)
        assert read_recording(path).scores_us == scores


def test_genomes_of_an_older_version_are_left_out(tmp_path, genomes):
    old = Genome(genomes[0].family, 0, (("gone", 1),))
    stored(tmp_path / "a.db", [ended(old, 1.0), ended(genomes[0], 2.0)])

    with open_store(str(tmp_path / "a.db")) as store:
        found = to_recording(store, problem="mission", gpu="l4", family=None, basis=Basis.MEASURED)
    assert list(found.space) == [genomes[0]]


def test_two_families_are_two_files(tmp_path, genomes):
    other = Genome("flash_other", 1, (("n", 1),))
    stored(tmp_path / "a.db", [ended(other, 1.0), ended(genomes[0], 2.0)])
    where = {"problem": "mission", "gpu": "l4"}

    with pytest.raises(UsageError, match="choose with --family"):
        record(str(tmp_path / "a.db"), tmp_path / "a.json", family=None, **where)
    with pytest.raises(UsageError, match="has no flash_none there"):
        record(str(tmp_path / "a.db"), tmp_path / "a.json", family="flash_none", **where)
    found = record(str(tmp_path / "a.db"), tmp_path / "a.json", family=genomes[0].family, **where)
    assert list(found.space) == [genomes[0]]


def test_an_estimate_is_not_recorded_as_a_measurement(tmp_path, genomes):
    stored(tmp_path / "a.db", [ended(genomes[0], 1.0)], basis=Basis.ESTIMATED)

    with pytest.raises(NoKernelError, match=r"nothing measured .* --estimated"):
        record(str(tmp_path / "a.db"), tmp_path / "a.json", problem="mission", gpu="l4", family=None)
    assert not (tmp_path / "a.json").exists()


def test_a_search_on_a_recording_is_stored_and_resumed(tmp_path):
    common = {"strategy": "tpe", "seed": 0, "fresh": False, "argv": []}
    whole = search_recording(FIXTURE, str(tmp_path / "whole.db"), limits=Limits(50), **common)
    search_recording(FIXTURE, str(tmp_path / "parts.db"), limits=Limits(27), **common)
    again = search_recording(FIXTURE, str(tmp_path / "parts.db"), limits=Limits(50), **common)

    assert (again.spent, again.best) == (50, whole.best)
    with open_store(str(tmp_path / "parts.db")) as store:
        run = store.runs()[0]
        assert (run.key.basis, run.key.gpu, run.number) == (Basis.REPLAYED, "Made-up GPU", 1)
        assert len(store.history(run)) == 50


def test_a_changed_record_starts_another_run(tmp_path):
    common = {"strategy": "uniform", "seed": 0, "limits": Limits(5), "fresh": False, "argv": []}
    changed = tmp_path / "changed.json"
    text = gzip.decompress(FIXTURE.read_bytes()).decode()
    changed.write_text(text.replace('"compile_time": 250.0', '"compile_time": 260.0'))
    for path in (FIXTURE, changed, changed):
        search_recording(path, str(tmp_path / "a.db"), **common)

    with open_store(str(tmp_path / "a.db")) as store:
        assert [store.spent_budget(run) for run in store.runs()] == [5, 5]


# ---- the commands


def test_the_curves_of_a_comparison_end_where_its_table_does() -> None:
    words = ("replay", str(FIXTURE), "--strategy", "uniform", "--budget", "25", "--repeats", "3")
    told = json.loads(evoflash(*words, "--json").stdout)
    header, *lines = evoflash(*words, "--csv").stdout.splitlines()

    assert header == "strategy,evaluation,lower_quartile,median,upper_quartile"
    assert len(lines) == 2 * 25  # of random search's expectation as well, whose name has a comma
    assert len(told["curves"]["uniform"]) == 25
    assert told["curves"]["uniform"][-1][1] == pytest.approx(told["standings"][0]["best_over_optimum"])
    _, at, *quartiles = lines[24].split(",")
    assert at == "25"
    assert [float(each) for each in quartiles] == pytest.approx(told["curves"]["uniform"][-1], rel=1e-4)
    medians = [float(line.split(",")[-2]) for line in lines[:25]]
    assert medians == sorted(medians, reverse=True)
    assert evoflash(*words, "--csv", "--json").returncode == EXIT_USAGE


def test_replay_prints_a_table_with_random_search_among_the_strategies():
    done = evoflash(
        "replay", str(FIXTURE), "--strategy", "uniform,exhaustive", "--budget", "40", "--repeats", "3"
    )

    assert done.returncode == 0, done.stderr
    assert "416 configurations, 373 correct, optimum 1200 us" in done.stdout
    for word in ("uniform", "exhaustive", "random, expected", "never", "3 repeats of 40 evaluations"):
        assert word in done.stdout


@pytest.mark.slow
@pytest.mark.full
def test_replay_prints_json_that_repeats():
    arguments = ("replay", str(FIXTURE), "--strategy", "evolution,tpe", "--budget", "30", "--repeats", "2")
    first, second = (evoflash(*arguments, "--json", "--seed", "4") for _ in range(2))
    found = json.loads(first.stdout)

    assert found == json.loads(second.stdout)
    assert [standing["strategy"] for standing in found["standings"]] == ["evolution", "tpe"]
    assert (found["budget"], found["repeats"], found["seed"]) == (30, 2, 4)
    assert found["optimum_us"] == pytest.approx(1200.03, abs=0.01)
    assert all(standing["best_over_optimum"] >= 1 for standing in found["standings"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("replay", "no_such_file.json"), "No such file"),
        (("replay", str(Path(__file__))), "no JSON object"),
        (("replay", str(FIXTURE), "--strategy", "annealing"), "no strategy is called 'annealing'"),
        (("search", "--evaluator", "replay"), "give both"),
        (
            ("search", "--evaluator", "replay", "--recorded", str(FIXTURE), "--until", "0.9"),
            "no physical floor",
        ),
        (("search", "--evaluator", "gpu", "--recorded", str(FIXTURE)), "give both"),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments, words):
    done = evoflash(*arguments)

    assert done.returncode == EXIT_USAGE
    assert words in one_line(done)


@pytest.mark.slow
@pytest.mark.full
def test_search_runs_on_a_recording_and_says_where_its_times_come_from(tmp_path):
    command = (
        "search", "--evaluator", "replay", "--recorded", str(FIXTURE),
        "--budget", "30", "--db", str(tmp_path / "a.db"),
    )  # fmt: skip
    done, again = evoflash(*command), evoflash(*command, "--json")

    assert done.returncode == 0, done.stderr
    assert "us replayed from a recording, not measured here; best of 30 evaluations" in done.stdout
    assert "spent its budget" in again.stderr
    found = json.loads(again.stdout)
    assert (found["best"]["basis"], found["spent"]) == ("replayed", 30)


def test_a_search_is_surrogate_s_unless_a_preset_of_evolution_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(search_command, "_on_recording", lambda *_, strategy, **__: asked.append(strategy))
    context = click.Context(click.Command("search"))
    for more in ({}, {"preset": "free"}, {"strategy": "tpe"}):
        search_command.search(context, recorded=FIXTURE, evaluator="replay", db="unused.db", **more)

    assert asked == ["surrogate", "evolution:free", "tpe"]


def test_record_writes_what_replay_reads(tmp_path, genomes):
    stored(tmp_path / "a.db", [ended(genome, 10.0 + i) for i, genome in enumerate(genomes)])
    target = tmp_path / "mission.json"
    where = ("--problem", "mission", "--gpu", "l4", "--db", str(tmp_path / "a.db"))

    done = evoflash("record", str(target), *where)
    assert done.returncode == 0, done.stderr
    assert f"{len(genomes)} configurations" in one_line(done)
    assert evoflash("replay", str(target), "--strategy", "uniform", "--repeats", "1").returncode == 0
    missing = evoflash("record", str(target), "--estimated", *where)
    assert missing.returncode == EXIT_NO_KERNEL
    assert "nothing estimated" in one_line(missing)
