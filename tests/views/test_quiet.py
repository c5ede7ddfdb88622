"""With -q a search says nothing on stderr and one line on stdout; data that is asked for is printed whole."""

import json
from pathlib import Path

import pytest
from places import FIXTURES

from evoflash.cli import program as cli
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.run_status import ComputeCost, charge
from evoflash.store.store import open_store

GPU, PROBLEM = load_gpu("l4"), parse_problem("mission")
FAMILY = load_family("flash_simt")
GENOME = FAMILY.seeds_for(PROBLEM, FAMILY.space(PROBLEM.compile_keys(GPU.arch), GPU), GPU)[0]
LINE = f"{GENOME.id}  flash_simt  ~12.68 us ESTIMATED by model 3, not measured\n"
SEARCH = ("search", "--gpu", "l4", "--budget", "1", "--evaluator", "emulated", "--no-archive")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """The run of SEARCH, whose budget is spent: the command prints what it came to and evaluates nothing."""
    path = str(tmp_path / "evoflash.db")
    with open_store(path) as store:
        key = RunKey(str(PROBLEM), "l4", Basis.ESTIMATED, "surrogate", 0)
        run = store.begin(key, gpu_hash=GPU.hash, budget=1, argv=[], environment={})
        known = (str(PROBLEM), "l4", Basis.ESTIMATED, Status.CORRECT, Rung.DONE)
        store.add(run, Evaluation(GENOME, *known, score_us=12.68, model_version="3"), Proposal(GENOME))
    return path


@pytest.fixture
def printed(monkeypatch, capsys, db):
    """What a command prints on stdout and on stderr."""
    monkeypatch.setenv("EVOFLASH_QUIET", "")  # which -q sets: it is put back after the test

    def call(*arguments: str) -> tuple[str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.run_command([*arguments, "--db", db])
        assert ended.value.code == 0
        return tuple(capsys.readouterr())

    return call


def test_a_quiet_search_prints_the_kernel_it_came_to_in_one_line(printed) -> None:
    assert printed(*SEARCH, "-q") == (LINE, "")


def test_a_search_that_is_not_quiet_prints_its_report_and_its_notes(printed) -> None:
    out, err = printed(*SEARCH)

    assert out.startswith(f"kernel    {GENOME.id}")
    assert "spent its budget" in err


def test_what_a_search_took_is_a_note_beside_its_report_which_repeats(printed, db) -> None:
    before, _ = printed(*SEARCH)
    with open_store(db) as store:
        charge(store.database, store.runs()[0], ComputeCost(0.0, 90.0))

    after, err = printed(*SEARCH)

    assert after == before
    assert "evoflash: it took 1.5 CPU minutes.\n" in err


def test_quiet_before_the_command_means_the_same(printed) -> None:
    assert printed("-q", *SEARCH) == (LINE, "")


def test_a_quiet_search_prints_its_json_whole(printed) -> None:
    out, err = printed(*SEARCH, "-q", "--json")

    assert json.loads(out)["best"]["genome"]["id"] == GENOME.id
    assert set(json.loads(out)) == {
        *("schema_version", "best", "spent", "run", "comparisons", "ties", "validator", "cost")
    }
    assert err == ""


def test_a_quiet_search_on_a_recording_is_one_line_with_its_mark(printed) -> None:
    recorded = ("--evaluator", "replay", "--recorded", str(FIXTURES / "recorded.json.gz"))
    out, err = printed("search", *recorded, "--budget", "3", "--strategy", "uniform", "-q")

    assert out.count("\n") == 1
    assert out.endswith(" us replayed from a recording, not measured here\n")
    assert err == ""


@pytest.mark.parametrize("command", [("best",), ("leaderboard",), ("show", GENOME.id)])
def test_data_that_was_asked_for_is_printed_whole(command, printed) -> None:
    loud, _ = printed(*command)

    assert printed("-q", *command) == (loud, "")


def test_a_quiet_best_writes_its_file_without_a_word(printed, tmp_path) -> None:
    path = tmp_path / "kernel.cu"
    _, err = printed("best", "-q", "--export", str(path))

    assert path.read_text().startswith("//")
    assert err == ""
