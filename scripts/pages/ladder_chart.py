"""Draws docs/ladder-h200-mission.svg and .png from the recorded climb; measures nothing.

    python -m scripts.pages.ladder_chart scripts/pages/records/ladder-h200-mission.json \\
        docs/ladder-h200-mission.svg
"""

import argparse
from pathlib import Path

from evoflash.app.ladder import Climb, LadderResult, LadderStep
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.space import Genome
from evoflash.views.ladder import check_plot, plot
from scripts.records import read_record


def read_climb(path: Path) -> Climb:
    """What `evoflash ladder --json` wrote."""
    record = read_record(path)
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
        named = LadderStep(step["step"], step["change"], step["family"], (step["values"],))
        results.append(
            LadderResult(named, evaluation, step["over_previous"], step["over_first"], step["tflops"])
        )
    return Climb(problem, gpu, basis, tuple(results))


def main() -> None:
    """Read the climb, draw the chart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, help="what `evoflash ladder --json` wrote")
    parser.add_argument("target", type=Path, help="an .svg or .png file")
    args = parser.parse_args()
    check_plot(args.target)
    plot(read_climb(args.source), args.target)


if __name__ == "__main__":
    main()
