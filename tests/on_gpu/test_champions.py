"""The shipped archive on the GPU that it was measured on: `best` checks and times before it answers."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

from evoflash.champions import champions
from evoflash.evaluation import Basis, was_timed_again
from evoflash.store.store import open_store

FEW = 1  # of the archive's problems, shortest first: some 20 s each, and a second one shows nothing else


def best(problem, db):
    command = [sys.executable, "-m", "evoflash", "best", "--problem", problem, "--db", str(db), "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300, check=False
    )


@pytest.mark.gpu
@pytest.mark.takes_turns
def test_a_known_problem_is_verified_timed_and_stored_with_an_empty_database(spec, tmp_path):
    known = sorted(champions(spec.name), key=lambda each: each.us)[:FEW]
    if not known:
        pytest.skip(f"nothing is archived for {spec.name}")
    for number, each in enumerate(known):  # a database each: two problems may have the same genome
        db = tmp_path / f"{number}.db"

        first, again = best(each.problem, db), best(each.problem, db)

        assert first.returncode == again.returncode == 0, first.stderr + again.stderr
        assert "checking it and timing it again here" in first.stderr
        assert "checking it and timing it again here" not in again.stderr
        (found,) = json.loads(first.stdout)
        assert found["score_us"] == json.loads(again.stdout)[0]["score_us"]
        assert (found["genome"]["id"], found["basis"]) == (each.genome.id, "measured")
        with open_store(str(db), read_only=True) as store:
            (run,) = store.runs()
            ((_, evaluation),) = store.history(run)
            rivals = {row.name: row.score_us for row in store.baselines(run)}
        assert (run.key.strategy, evaluation.basis) == ("archive", Basis.MEASURED)
        assert evaluation.is_correct
        assert was_timed_again(evaluation)
        then = {name: round(us / each.us, 3) for name, us in each.rivals_us.items()}
        now = {name: round(us / evaluation.score_us, 3) for name, us in rivals.items()}
        print(
            f"\n{each.problem}: {evaluation.score_us:.2f} us, archived {each.us:.2f}; over {now}, {then} then"
        )
