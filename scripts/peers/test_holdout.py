"""The hold-out script without a GPU: which problems, what is read of a search, limits, lost libraries."""

import argparse
import sys

from evoflash.champions import champions
from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from scripts.peers import holdout
from scripts.peers.rows import ROWS

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


def test_a_search_that_ended_gives_its_winner(tmp_path, monkeypatch):
    run_as(monkeypatch, WRITES)
    (ours,), spent = holdout.searched(ROW, options_of(tmp_path), tmp_path)
    assert ours.genome == genome_of(2)
    assert (spent["exit_code"], spent["stopped"], spent["found_us"]) == (0, False, 20.0)


def test_a_search_that_fails_says_its_last_line(tmp_path, monkeypatch):
    run_as(monkeypatch, "import sys; sys.exit('no correct kernel among 200 evaluations')")
    ours, spent = holdout.searched(ROW, options_of(tmp_path), tmp_path)
    assert ours == ()
    assert spent["reason"] == "no correct kernel among 200 evaluations"


# ---- and the comparison, in real processes with stand-ins for what needs the GPU
