"""The hold-out script without a GPU: which problems, what is read of a search, limits, lost libraries."""

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from evoflash.champions import champions
from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.gpu.baselines.contender import attempt, note_in
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from scripts.peers import holdout
from scripts.peers import run as peers
from scripts.peers.rows import ROWS
from scripts.peers.timing import Job, Setup, Timed

H200 = load_gpu("h200")
ROW = holdout.UNSEEN[0]
PROBLEM = str(parse_problem(ROW))
# What a search leaves: the test's own modules write the database that a real one would.
WRITES = "from scripts.peers import test_holdout; test_holdout.database({!r})"


def test_no_problem_is_a_row_or_an_archived_kernels():
    unseen = {str(parse_problem(row)) for row in holdout.UNSEEN}
    assert len(unseen) == len(holdout.UNSEEN) >= 8
    assert unseen.isdisjoint(str(parse_problem(row)) for row in ROWS)
    assert unseen.isdisjoint(each.problem for each in champions("h200"))


def test_parts_hold_every_problem_once():
    parts = [holdout.part_of(holdout.UNSEEN, f"{which}/3") for which in range(3)]
    assert sorted(row for part in parts for row in part) == sorted(holdout.UNSEEN)


# ---- a search


def genome_of(warps):
    space = load_family("flash_mma").space(parse_problem(ROW).compile_keys(H200.arch), H200)
    return space.genome({"block_n": 64, "layout": "xor128", "warps": warps})


def database(path):
    """Two right kernels, one wrong, and a duplicate, as a search stores them."""
    with open_store(str(path)) as store:
        key = RunKey(PROBLEM, "h200", Basis.MEASURED, "evolution+archive", 0)
        run = store.begin(key, gpu_hash=H200.hash, budget=9, argv=[], environment={})
        build = Build("", parse_problem(ROW).compile_keys("sm_90a")[0], "s", "c", compile_s=1.5)
        for warps, us, twin in ((1, 30.0, ""), (2, 20.0, ""), (4, None, ""), (8, 20.0, genome_of(2).id)):
            status, rung = (Status.CORRECT, Rung.DONE) if us else (Status.CORRECTNESS, Rung.CORRECTNESS)
            seconds = {"smoke_s": "0.25", "correctness_s": "0.5", **({"timing_s": "2"} if us else {})}
            timings = (Timing(PROBLEM, "cold", us, us, us, 9),) if us else ()
            found = Evaluation(
                genome_of(warps),
                PROBLEM,
                "h200",
                Basis.MEASURED,
                status,
                rung,
                builds=(build,),
                timings=timings,
                score_us=us,
                duplicate_of=twin,
                environment=seconds,
            )
            store.add(run, found, Proposal(found.genome))


def test_what_a_search_did_is_read_from_its_database(tmp_path):
    database(tmp_path / "s.db")
    winner, known = holdout.what_it_did(str(tmp_path / "s.db"))
    assert (winner.genome, winner.score_us) == (genome_of(2), 20.0)
    assert known["spent"] == 3
    assert known["statuses"] == {"correct": 2, "correctness": 1}
    assert known["families"] == {"flash_mma": 3}
    assert known["seconds_by_rung"] == {"compile": 4.5, "smoke": 0.8, "correctness": 1.5, "timing": 4.0}


def options_of(tmp_path, **changed):
    plain = {
        "gpu": "",
        "budget": 200,
        "minutes": None,
        "limit": 30.0,
        "search_limit": 20.0,
        "search_pythonpath": None,
        "search_option": [],
        "row_limit": 20.0,
        "time_limit": 90.0,
        "least": 0.0,
        "output": tmp_path / "out.json",
    }
    return argparse.Namespace(**{**plain, **changed})


def run_as(monkeypatch, code):
    """In place of evoflash search."""
    monkeypatch.setattr(
        holdout, "command", lambda row, options, db: [sys.executable, "-c", code.format(str(db))]
    )


def test_the_search_is_what_a_person_would_type(tmp_path):
    words = holdout.command(ROW, options_of(tmp_path), tmp_path / "s.db")
    assert words[1:4] == ["-m", "evoflash", "search"]
    said = " ".join(words[4:])
    assert said == f"--problem {ROW} --db {tmp_path / 's.db'} --budget 200 --time-limit 20"


def test_further_words_for_the_search_are_passed_on(tmp_path):
    options = options_of(tmp_path, search_option=["--no-archive", "--seeds=1"])
    assert "--no-archive --seeds=1" in " ".join(holdout.command(ROW, options, tmp_path / "s.db"))


def test_the_search_finds_an_empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/wheels:/fa4")
    found = holdout.environment(tmp_path, options_of(tmp_path))
    assert not Path(found["EVOFLASH_CACHE_DIR"]).exists()
    assert found["PYTHONPATH"] == "/wheels:/fa4"
    own = options_of(tmp_path, search_pythonpath="/wheels")
    assert holdout.environment(tmp_path, own)["PYTHONPATH"] == "/wheels"


def test_a_search_that_ended_gives_its_winner(tmp_path, monkeypatch):
    run_as(monkeypatch, WRITES)
    (ours,), spent = holdout.searched(ROW, options_of(tmp_path), tmp_path)
    assert ours.genome == genome_of(2)
    assert (spent["exit_code"], spent["stopped"], spent["found_us"]) == (0, False, 20.0)


@pytest.mark.slow
def test_a_search_that_takes_too_long_is_told_to_stop_and_what_it_stored_counts(tmp_path, monkeypatch):
    run_as(monkeypatch, f"{WRITES}; import time; time.sleep(60)")
    began_s = time.monotonic()
    (ours,), spent = holdout.searched(ROW, options_of(tmp_path, limit=8.0), tmp_path)
    assert time.monotonic() - began_s < 50
    assert spent["stopped"]
    assert spent["exit_code"] == -signal.SIGINT
    assert ours.genome == genome_of(2)


def test_a_search_hears_ctrl_c_also_where_the_script_runs_in_the_background(tmp_path, monkeypatch):
    """A shell without job control lets what it starts with & ignore Ctrl-C."""
    run_as(monkeypatch, "import time; time.sleep(60)")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, spent = holdout.searched(ROW, options_of(tmp_path, limit=1.0), tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (spent["stopped"], spent["exit_code"]) == (True, -signal.SIGINT)


def test_a_search_that_ignores_ctrl_c_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(holdout, "_GRACE_S", 0.2)
    code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    run_as(monkeypatch, code)
    ours, spent = holdout.searched(ROW, options_of(tmp_path, limit=1.0), tmp_path)
    assert ours == ()
    assert (spent["stopped"], spent["exit_code"]) == (True, -9)


def test_a_search_that_fails_says_its_last_line(tmp_path, monkeypatch):
    run_as(monkeypatch, "import sys; sys.exit('no correct kernel among 200 evaluations')")
    ours, spent = holdout.searched(ROW, options_of(tmp_path), tmp_path)
    assert ours == ()
    assert spent["reason"] == "no correct kernel among 200 evaluations"


# ---- and the comparison, in real processes with stand-ins for what needs the GPU


def stand_in_ready(rows, setup):
    note_in(setup.notes)
    for name in setup.libraries:
        if name == "dies_early":
            with attempt(name):
                os._exit(7)
    return tuple(Job(row, (), ("no kernel of ours is known",)) for row in rows)


def stand_in_timed(job, setup):
    for name in setup.libraries:
        if name == "dies_late":
            with attempt(name):
                os._exit(7)
    assert job.failures == ()
    return Timed(genome_id=genome_of(2).id, timings={genome_of(2).id: (Timing("w", "cold", 1, 1, 1, 1),)})


def stand_in_compiled(row, found, setup):
    return Job(row, (), ())


@pytest.fixture
def measured(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "ready", stand_in_ready)
    monkeypatch.setattr(peers, "timed", stand_in_timed)
    monkeypatch.setattr(holdout, "compiled", stand_in_compiled)
    run_as(monkeypatch, WRITES)

    def measure(*libraries, **changed):
        options = options_of(tmp_path, **changed)
        table = peers.Table(options, {}, {ROW: {}}, time.monotonic())
        holdout.measure([ROW], table, Setup(H200, 1, libraries, {}, notes=""))
        (row,) = json.loads(options.output.read_text())["rows"]
        return row

    return measure


@pytest.mark.slow
def test_the_winner_is_compared_and_what_the_search_spent_is_kept(measured):
    row = measured("fa4")
    assert row["failure"] == ""
    assert row["ours"]["id"] == genome_of(2).id
    assert row["ours"]["known_us"] == 20.0
    assert row["search"]["spent"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("library", ["dies_early", "dies_late"])
def test_a_library_that_ends_the_process_is_left_out(measured, library):
    row = measured("fa4", library)
    assert row["failure"] == ""
    assert row["absent"][library].startswith(f"{library}: ")


def test_a_problem_is_not_begun_without_time(measured):
    row = measured("fa4", least=1e9)
    assert row["failure"] == "not begun: the time was over"
    assert "search" not in row
