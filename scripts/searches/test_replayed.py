"""The record of replayed strategies: what a row says, when two differ, and what the script writes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from places import FIXTURES

from evoflash.replay.comparison import compare
from evoflash.replay.kernel_tuner import read_recording
from scripts.searches import replayed

FIXTURE = FIXTURES / "recorded.json"


@pytest.fixture(scope="module")
def rows() -> dict[str, replayed.Row]:
    recording = read_recording(FIXTURE)
    return {
        name: replayed.row(recording, name, budget=60, seeds=6, first=3) for name in ("uniform", "evolution")
    }


def test_a_row_agrees_with_the_command_that_compares(rows: dict[str, replayed.Row]) -> None:
    standing = compare(read_recording(FIXTURE), ["evolution"], budget=60, repeats=6, seed=3).standings[0]
    row = rows["evolution"]

    assert (row.mean, row.mean_low, row.hits) == pytest.approx(
        (standing.score, standing.score_low, standing.near_share)
    )
    assert np.mean(row.scores) == pytest.approx(row.mean, abs=1e-3)
    assert row.best_over_optimum.keys() == {"25", "50"}  # within the budget
    assert all(low <= mid <= high for low, mid, high in row.best_over_optimum.values())


def test_the_tail_is_the_share_of_seeds_below_random_search(rows: dict[str, replayed.Row]) -> None:
    row = rows["uniform"]

    assert row.below_random == np.mean(np.array(row.scores) < 0)
    assert row.median == pytest.approx(np.median(row.scores), abs=1e-3)


def test_equal_scores_differ_by_nothing_and_a_constant_gain_is_seen(rows: dict[str, replayed.Row]) -> None:
    row = replace(rows["uniform"], scores=tuple(np.linspace(-1.0, 1.0, 20)))
    better = replace(row, scores=tuple(score + 0.2 for score in row.scores))

    assert replayed.paired(row, row)["p"] == 1.0
    found = replayed.paired(better, row)
    assert found["difference"] == pytest.approx(0.2)
    assert found["p"] < 0.001


def test_the_script_writes_every_space_strategy_and_pair(monkeypatch, tmp_path, capsys) -> None:
    output = tmp_path / "record.json"
    arguments = [str(FIXTURE), "--strategies", "uniform,exhaustive", "--seeds", "2", "--budget", "30"]
    monkeypatch.setattr("sys.argv", ["replayed", *arguments, "-o", str(output)])

    assert replayed.main() == 0

    space = json.loads(output.read_text())["spaces"][0]
    assert [row["strategy"] for row in space["strategies"]] == ["uniform", "exhaustive"]
    assert [(pair["one"], pair["other"]) for pair in space["pairs"]] == [("uniform", "exhaustive")]
    assert "recorded.json uniform: P mean" in capsys.readouterr().out
