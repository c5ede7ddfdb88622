"""Searches that were repeated with several seeds: their curves, what two of them say, and the commands."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import forked
import pytest
import report_cases as cases

from evoflash.app.repeats import RepeatedSearch, compare, compare_runs, curve, repeated_search, sign_flip_test
from evoflash.app.runs import find_run
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis, Proposal, Run, RunKey, Status
from evoflash.store.store import Store, open_store
from evoflash.views.html.search_curves import page_of_comparison
from evoflash.views.runs import answer

TIMES = {"uniform": ((30.0, 24.0, 20.0), (28.0, 28.0, 22.0)), "evolution": ((24.0, 15.0), (21.0, 16.5))}


def search(store: Store, strategy: str, seed: int, times: Sequence[float | None], **key: object) -> Run:
    made = replace(RunKey(cases.MISSION, "h200", Basis.MEASURED, strategy, seed), **key)  # type: ignore[arg-type]
    run = store.begin(made, gpu_hash="abc", budget=9, argv=[], environment={})
    for genome, us in zip(cases.genomes(8), times, strict=False):
        status = Status.CORRECT if us else Status.CORRECTNESS
        outcome = replace(cases.measured(genome, us, status), basis=made.basis, gpu=made.gpu)
        store.add(run, outcome, Proposal(genome))
    return run


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two searches with two seeds: runs 1 and 2, then 3 and 4; run 5 is empty, run 6 another GPU's, run 7
    of a verification."""
    path = tmp_path_factory.mktemp("repeats") / "runs.db"
    with open_store(str(path)) as store:
        for strategy, repeats in TIMES.items():
            for seed, times in enumerate(repeats):
                search(store, strategy, seed, times)
        search(store, "uniform", 2, [])
        search(store, "uniform", 0, [9.0], gpu="l4")
        search(store, "verify", 0, [9.0])
    return str(path)


def test_a_curve_has_the_best_correct_time_after_each_evaluation() -> None:
    first, second, third, twin = cases.genomes(4)
    history = [
        cases.measured(first, None, Status.CORRECTNESS),
        cases.measured(second, 20.0),
        cases.measured(twin, 20.0, duplicate_of=second.id),
        cases.measured(third, 25.0),
    ]
    assert curve([(Proposal(each.genome), each) for each in history]) == (math.inf, 20.0, 20.0)


def test_two_searches_are_compared_seed_by_seed_after_as_many_evaluations(database: str) -> None:
    found = compare_runs(database, "2", "3")
    assert [each.run for each in found.first.repeats] == [1, 2]
    assert (found.evaluations, found.pairs) == (2, ((0, 24.0, 15.0), (1, 28.0, 16.5)))
    assert found.ratio == pytest.approx(math.sqrt(24 / 15 * 28 / 16.5))
    assert (found.p_value, found.least_p) == (0.5, 0.5)
    assert found.first.quartiles(1) == (28.0, 28.0, 30.0)
    said = " ".join(answer(found))
    assert "After 2 evaluations A's best takes 1.648 of B's time" in said
    assert "2 pairs cannot show less than 0.500" in said


def test_two_runs_of_one_search_are_compared_by_themselves(database: str) -> None:
    found = compare_runs(database, "1", "2")
    assert [len(each.repeats) for each in (found.first, found.second)] == [1, 1]
    assert found.ratio == pytest.approx(20 / 22)
    assert found.p_value is None


@pytest.mark.parametrize(
    ("first", "second", "error", "says"),
    [
        ("1", "6", UsageError, "run 1 has the gpu h200, run 6 l4"),
        ("1", "1", UsageError, "name two runs"),
        ("3", "5", NoKernelError, "run 5 has evaluated nothing yet"),
        ("1", "nonsense", UsageError, "no run is called"),
        ("7", "1", UsageError, "run 7 is of verify, which is no search"),
    ],
)
def test_what_cannot_be_compared_is_said(database: str, first: str, second: str, error, says: str) -> None:
    with pytest.raises(error, match=says):
        compare_runs(database, first, second)


def test_a_search_without_a_kernel_says_nothing_of_which_is_better(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "none.db")) as store:
        ours: list[RepeatedSearch] = [
            repeated_search(store, search(store, name, 0, times))
            for name, times in (("uniform", [None]), ("tpe", [9.0]))
        ]
    found = compare(*ours)
    assert (found.ratio, found.pairs) == (None, ())
    assert "nothing can be said" in " ".join(answer(found))
    assert json.loads(json.dumps(found.as_dict()))["first"]["quartiles_us"] == [[None, None, None]]
    assert "<table>" not in page_of_comparison(found)


def test_the_test_of_signs_counts_all_choices_or_many() -> None:
    assert sign_flip_test([0.1] * 6) == 2 / 64
    assert sign_flip_test([0.1, -0.1]) == 1.0
    assert sign_flip_test([0.1] * 20) < 0.001
    assert sign_flip_test([0.1, -0.1] * 10) > 0.9


def test_the_newest_run_of_a_seed_stands_for_it(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "twice.db")) as store:
        search(store, "uniform", 0, [20.0])
        for us in (30.0, 10.0):
            run = store.begin(
                RunKey(cases.MISSION, "h200", Basis.MEASURED, "uniform", 1),
                gpu_hash="abc",
                budget=9,
                argv=[],
                environment={},
                fresh=True,
            )
            store.add(run, cases.measured(cases.genomes(1)[0], us), Proposal(cases.genomes(1)[0]))
        found = repeated_search(store, find_run(store, "1"))
        assert [(each.seed, each.best_us) for each in found.repeats] == [(0, (20.0,)), (1, (10.0,))]
        assert [each.seed for each in repeated_search(store, find_run(store, "1"), seeds=[0]).repeats] == [0]


def test_the_command_prints_a_table_json_and_a_page(database: str, tmp_path: Path) -> None:
    table = forked.evoflash("runs", "compare", "1", "3", "--db", database)
    assert table.returncode == 0, table.stderr
    assert "A  uniform (runs 1, 2)" in table.stdout
    told = json.loads(forked.evoflash("runs", "compare", "1", "3", "--json", "--db", database).stdout)
    assert [pair["seed"] for pair in told["pairs"]] == [0, 1]
    assert told["second"]["quartiles_us"][1] == [15.0, 15.0, 16.5]
    target = tmp_path / "page.html"
    assert (
        forked.evoflash("runs", "compare", "1", "3", "--html", str(target), "--db", database).returncode == 0
    )
    text = target.read_text()
    assert text.count("<polyline") == 2
    assert "http" not in text


@pytest.mark.full
def test_a_search_is_repeated_with_the_seeds_that_follow(tmp_path: Path) -> None:
    database = str(tmp_path / "repeated.db")
    words = (
        "search",
        "--gpu",
        "l4",
        "--family",
        "flash_wmma",
        "--budget",
        "1",
        "--seed",
        "4",
        "--repeats",
        "2",
    )
    done = forked.evoflash(*words, "--db", database, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [each["seed"] for each in told["runs"]] == [4, 5]
    assert told["estimated"] is True
    again = forked.evoflash(*words, "--db", database)
    assert "~: estimated by a model, not measured." in again.stdout
    with open_store(database, read_only=True) as store:
        assert len(store.runs()) == 2


@pytest.mark.parametrize("other", [("--dry-run",), ("--problems", "mix.txt"), ("--recorded", "a.json")])
def test_repeats_are_for_one_problem_that_is_evaluated(other: tuple[str, ...]) -> None:
    done = forked.evoflash("search", "--gpu", "l4", "--repeats", "2", *other)
    assert (done.returncode, "--repeats is for searches of one problem" in done.stderr) == (2, True)
