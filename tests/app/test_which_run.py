"""Which run a command reads: the one that --run names, else the newest search that has an outcome."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import forked
import pytest
import report_cases as cases
from command_cases import fresh

from evoflash.app import dashboard
from evoflash.app.runs import find_run
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import Basis
from evoflash.store import run_edits
from evoflash.store.store import open_store
from evoflash.views.kernel import next_steps

SEARCH, SINGLE, EMPTY = "1", "3", "6"  # run 2 is a random search of the same, 4 and 5 are of single kernels
NOT_SEARCHES = ("evaluate", "verify", "remeasure")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A search and a random one, three runs of single kernels, and a search that has just begun."""
    path = tmp_path_factory.mktemp("which") / "runs.db"
    with open_store(str(path)) as store:
        cases.fill(store)
        for strategy in NOT_SEARCHES:
            run = cases.begin(store, strategy=strategy)
            cases.put(store, run, [(cases.measured(cases.genomes(1)[0], 11.0), "seed", ())])
        cases.begin(store, strategy="random")
    return str(path)


def told(database: str, *words: str) -> dict:
    done = forked.evoflash(*words, "--db", database)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_neither_single_kernels_nor_an_empty_search_are_the_newest_search(database: str) -> None:
    with open_store(database, read_only=True) as store:
        assert find_run(store).id == 2
        assert [find_run(store, str(at)).id for at in range(1, 7)] == [1, 2, 3, 4, 5, 6]
        assert find_run(store, problem=cases.MISSION, gpu="h200").id == 2
        with pytest.raises(NoKernelError, match="runs --all"):
            find_run(store, gpu="l4")
        with pytest.raises(NoKernelError, match="no replay"):
            find_run(store, replayed=True)
        with pytest.raises(UsageError, match=r"run 1 is of .* on h200"):
            find_run(store, SEARCH, gpu="l4")


def test_a_search_without_an_outcome_is_read_where_there_is_no_other(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "empty.db")) as store:
        begun = cases.begin(store)
        assert find_run(store).id == begun.id


def test_a_recorded_search_is_read_where_there_is_no_other_or_where_it_is_asked_for(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "replays.db")) as store:
        replayed = cases.begin(store, basis=Basis.REPLAYED)
        outcome = replace(cases.measured(cases.genomes(1)[0], 11.0), basis=Basis.REPLAYED)
        cases.put(store, replayed, [(outcome, "seed", ())])
        assert find_run(store).id == replayed.id
        real = cases.begin(store)
        cases.put(store, real, [(cases.measured(cases.genomes(1)[0], 12.0), "seed", ())])
        assert find_run(store).id == real.id
        assert find_run(store, replayed=True).id == replayed.id


def test_insights_and_failures_are_of_the_search_or_of_the_run_that_is_named(database: str) -> None:
    assert told(database, "insights", "--json")["run"]["id"] == 2
    assert told(database, "insights", "--run", SEARCH, "--json")["evaluated"] == 8
    assert told(database, "show", "--failures", "--json") == []
    (failed,) = told(database, "show", "--failures", "--run", SEARCH, "--json")
    assert failed["status"] == "correctness"


def test_show_and_best_keep_to_the_run_that_is_named(database: str) -> None:
    seed = cases.genomes(1)[0].id
    assert [each["score_us"] for each in told(database, "show", seed, "--json")] == [11.0, 20.0]
    (only,) = told(database, "show", seed, "--run", SEARCH, "--json")
    assert only["score_us"] == 20.0
    assert told(database, "best", "--json")[0]["score_us"] == 12.5
    assert told(database, "best", "--run", "2", "--json")[0]["score_us"] == 16.5
    none = forked.evoflash("best", "--run", EMPTY, "--db", database)
    assert (none.returncode, none.stdout) == (3, "")
    assert f"show --failures --run {EMPTY}" in none.stderr


def test_best_of_a_file_of_problems_says_what_is_known_for_each(database: str, tmp_path: Path) -> None:
    mix = tmp_path / "mix.txt"
    mix.write_text("mission\ngqa4k_d128,causal\nb=3,h=8,s=77,d=64\n")
    words = ("best", "--problems", str(mix), "--gpu", "h200", "--db", database)
    done = forked.evoflash(*words, "--json")
    assert done.returncode == 1
    assert [(row["basis"], row["time_us"]) for row in json.loads(done.stdout)][::2] == [
        ("measured", 12.5),
        (None, None),
    ]
    table = forked.evoflash(*words).stdout
    assert "archived, measured on NVIDIA H200" in table
    assert "2 of 3 have a kernel. `evoflash search --problems FILE` searches for the others." in table
    page = tmp_path / "mix.html"
    assert forked.evoflash(*words, "--html", str(page)).returncode == 1
    shown = page.read_text()
    assert f"2 of 3 problems of {mix} have a kernel." in shown
    assert "fa3, 1.04 times as long" in shown
    rows = json.loads(done.stdout)
    assert [isinstance(row["run"], int) for row in rows] == [True, False, False]
    assert f"run {rows[0]['run']}, " in shown
    alone = forked.evoflash("best", "--html", str(page), "--db", database)
    assert (alone.returncode, "`evoflash report` is of one search" in alone.stderr) == (2, True)
    mixed = forked.evoflash(*words, "--problem", "mission")
    assert (mixed.returncode, "leave the options for one kernel away" in mixed.stderr) == (2, True)


def test_leaderboard_keeps_to_the_run_that_is_named(database: str) -> None:
    rows = told(database, "leaderboard", "--run", SINGLE, "--json")["leaderboard"]
    assert [(row["run"], row["score_us"]) for row in rows] == [(3, 11.0)]


@pytest.mark.parametrize("named", [("1",), ("--run", "1")])
def test_report_and_dashboard_take_the_run_either_way(database: str, tmp_path: Path, named) -> None:
    page = tmp_path / "run.json"
    written = forked.evoflash("report", *named, "--json", str(page), "--db", database)
    assert written.returncode == 0, written.stderr
    assert json.loads(page.read_text())["run"]["id"] == 1


def test_a_run_that_is_named_twice_is_asked_about(database: str, tmp_path: Path) -> None:
    for command in ("report", "dashboard"):
        out = ("-o", str(tmp_path / "out.db")) + (("--no-serve",) if command == "dashboard" else ())
        done = forked.evoflash(command, "1", "--run", "2", *out, "--db", database)
        assert (done.returncode, "give one of them" in done.stderr) == (2, True)


def test_record_and_an_export_of_results_hold_one_run_alone(database: str, tmp_path: Path) -> None:
    both, one, t4 = (tmp_path / name for name in ("both.json", "one.json", "run.t4.json"))
    where = ("--problem", "mission", "--gpu", "h200")
    for words in (("record", str(both), *where), ("record", str(one), "--run", "2")):
        assert forked.evoflash(*words, "--db", database).returncode == 0
    assert [len(json.loads(file.read_text())["cache"]) for file in (both, one)] == [8, 2]
    seed = cases.genomes(1)[0].id
    written = forked.evoflash("export", seed, "--run", SEARCH, "-o", str(t4), "--db", database)
    assert written.returncode == 0, written.stderr
    assert len(json.loads(t4.read_text())["results"]) == 8
    missing = forked.evoflash("export", seed, "--run", "2", "--db", database)
    assert (missing.returncode, "run 2 has no kernel" in missing.stderr) == (2, True)
    unsaid = forked.evoflash("record", str(one), "--problem", "mission", "--db", database)
    assert (unsaid.returncode, "--gpu, or --run" in unsaid.stderr) == (2, True)


def test_runs_lists_searches_and_says_how_many_others_there_are(database: str) -> None:
    searches = told(database, "runs", "--json")
    assert ([run["id"] for run in searches["runs"]], searches["left_out"]) == ([6, 2, 1], 3)
    everything = told(database, "runs", "--all", "--json")
    assert (len(everything["runs"]), "left_out" in everything) == (6, False)
    assert "3 runs of single kernels are left out" in forked.evoflash("runs", "--db", database).stdout


def test_status_shows_the_newest_search_where_none_is_going_on(database: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    shutil.copy(database, copy)
    with open_store(str(copy)) as store:
        run_edits.delete(store.database, run_edits.find(store.database, EMPTY))
    assert [run["id"] for run in told(str(copy), "status", "--json")["runs"]] == [2]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("search", ("all that fit the GPU and the problem",)),
        ("leaderboard", ("default: all of them", "Default: all of them")),
        ("insights", ("that of the newest search",)),
    ],
)
def test_help_says_what_a_command_does_by_itself(command: str, words: tuple[str, ...]) -> None:
    shown = " ".join(forked.evoflash(command, "--help", COLUMNS="200").stdout.split())
    assert [each for each in words if each not in shown] == []


def test_help_and_config_name_the_database_that_is_used(tmp_path: Path) -> None:
    here = {"XDG_DATA_HOME": str(tmp_path), "EVOFLASH_DB": ""}
    for words in (("runs", "--help"), ("config",)):
        shown = "".join(fresh(*words, **here).stdout.split())  # help breaks a long path
        assert f"{tmp_path}/evoflash/evoflash.db" in shown


def test_a_run_has_one_number_wherever_it_is_told(database: str, tmp_path: Path) -> None:
    """A search that is begun again is the second of its key, and the seventh run of the database."""
    copy, t4 = tmp_path / "copy.db", tmp_path / "run.t4.json"
    shutil.copy(database, copy)
    seed = cases.genomes(1)[0]
    with open_store(str(copy)) as store:
        key = find_run(store, SEARCH).key
        again = store.begin(key, gpu_hash="abc", budget=20, argv=[], environment={}, fresh=True)
        cases.put(store, again, [(cases.measured(seed, 19.0), "seed", ())])
        assert (again.id, again.number) == (7, 2)
        assert dashboard.name_of(again).startswith("run 7: ")
        assert next_steps(again).startswith("run 7; next `evoflash report 7")
    told_of = {
        "runs": told(str(copy), "runs", "--json")["runs"][0]["id"],
        "status": told(str(copy), "status", "--json")["runs"][0]["id"],
        "insights": told(str(copy), "insights", "--json")["run"]["id"],
        "leaderboard": told(str(copy), "leaderboard", "--run", "7", "--json")["runs"][0]["run"],
        "report": json.loads(_written(str(copy), tmp_path / "run.json", "report", "--json"))["run"]["id"],
        "page": "7, stopped" in _written(str(copy), tmp_path / "run.html", "report", "-o"),
        "t4": json.loads(_written(str(copy), t4, "export", seed.id, "-o"))["results"][0]["evoflash"]["run"],
    }
    assert told_of == {**dict.fromkeys(told_of, 7), "page": True}
    table = forked.evoflash("runs", "--db", str(copy)).stdout
    assert [line.split()[0] for line in table.splitlines() if "begun again" in line] == ["7"]


def _written(database: str, path: Path, *words: str) -> str:
    done = forked.evoflash(*words, str(path), "--db", database)
    assert done.returncode == 0, done.stderr
    return path.read_text()
