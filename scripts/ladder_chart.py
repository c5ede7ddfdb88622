"""Draws docs/ladder-h200-mission.svg and .png from the recorded climb; measures nothing.

python scripts/ladder_chart.py docs/measurements/ladder-h200-mission.json docs/ladder-h200-mission.svg
"""

import json
import sys
from pathlib import Path

from evoflash.commands.ladder.report import check_plot, plot
from evoflash.commands.ladder.steps import Climb, Result, Step
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.space import Genome


def read_climb(path: Path) -> Climb:
    """What `evoflash ladder --json` wrote."""
    record = json.loads(path.read_text(encoding="utf-8"))
    problem, gpu, basis = record["problem"], record["gpu"], Basis(record["basis"])
    results = []
    for step in record["steps"]:
        evaluation = Evaluation(
            genome=Genome(step["family"], 0, tuple(sorted(step["values"].items()))),
            problem=problem,
            gpu=gpu,
            basis=basis,
            status=Status(step["status"]),
            rung=Rung(step["rung"]),
            score_us=step["us"],
        )
        named = Step(step["step"], step["change"], step["family"], (step["values"],))
        results.append(Result(named, evaluation, step["over_previous"], step["over_first"], step["tflops"]))
    return Climb(problem, gpu, basis, tuple(results))


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    check_plot(target)
    plot(read_climb(source), target)
