"""Search strategies on recorded spaces, many seeds each: score P, its tail, paired tests. Needs no GPU.

    python -m scripts.searches.replayed SPACE.json.gz ... --strategies evolution,surrogate -o FILE.json

P is that of evoflash/replay/comparison.py: 0 is what random search is expected to find, 1 the optimum. The
record is written after each strategy, so that a run that is cut off keeps what it has. It tunes nothing.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict, dataclass
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evoflash import __version__
from evoflash.replay.comparison import Curves, chosen, curves, random_expectation, standing
from evoflash.replay.kernel_tuner import read_recording
from evoflash.replay.recorded_space import Recording
from scripts.command_line import command

FLIPS = 20_000  # random signs of the differences, for the test of a pair of strategies
LOOKS = (25, 50, 100, 200)  # evaluations after which the best so far is noted

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Row:
    """What one strategy came to on one space, over its seeds."""

    strategy: str
    mean: float  # of P
    mean_low: float  # 95 % of the bootstrapped means lie between low and high
    mean_high: float
    median: float
    below_random: float  # share of the seeds with P below 0
    hits: float  # share of the seeds that came within 5 % of the optimum
    best_over_optimum: dict[
        str, tuple[float, float, float]
    ]  # quartiles of the best after so many evaluations
    cpu_ms: float  # of this process for each proposal, the loop and the look-up included
    scores: tuple[float, ...]  # P of each seed


def row(recording: Recording, strategy: str, *, budget: int, seeds: int, first: int) -> Row:
    """Run a strategy with the seeds from `first` on."""
    times_us = recording.scores_us
    started = time.process_time()
    best_us = curves(recording, strategy, budget, seeds, first)
    cpu_s = time.process_time() - started
    expected_us = expectation(recording, budget)
    whole = standing(strategy, best_us, expected_us, times_us[0])
    scores = scores_of(best_us, expected_us, times_us[0])
    looks = [at for at in LOOKS if at <= budget]
    reached = best_us[:, [at - 1 for at in looks]] / times_us[0]
    quartiles = np.quantile(reached, (0.25, 0.5, 0.75), axis=0).T.tolist()
    return Row(
        strategy,
        whole.score,
        whole.score_low,
        whole.score_high,
        float(np.median(scores)),
        float((scores < 0).mean()),
        whole.near_share,
        dict(zip(map(str, looks), quartiles, strict=True)),
        1e3 * cpu_s / (seeds * budget),
        tuple(round(float(score), 4) for score in scores),
    )


def expectation(recording: Recording, budget: int) -> Floats:
    """The best that random search is expected to have found after 1 to `budget` evaluations, in us."""
    times_us = recording.scores_us
    failed = len(recording.space.genomes) - len(times_us)
    return random_expectation(np.array(times_us + [times_us[-1]] * failed), budget)


def scores_of(best_us: Curves, expected_us: Floats, optimum_us: float) -> Floats:
    """P of each seed."""
    return np.array([standing("", curve[None], expected_us, optimum_us).score for curve in best_us])


def paired(one: Row, other: Row) -> dict[str, Any]:
    """Whether two strategies differ in P over the same seeds.

    `p` is the share of random signs of the differences whose mean is as far from 0 as theirs, both sides.
    """
    differences = np.array(one.scores) - np.array(other.scores)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, len(differences)))
    extreme = np.abs((signs * differences).mean(axis=1)) >= abs(differences.mean()) - 1e-12
    return {
        "one": one.strategy,
        "other": other.strategy,
        "difference": float(differences.mean()),
        "p": float((1 + extreme.sum()) / (1 + FLIPS)),
    }


def space_record(path: Path, recording: Recording, rows: list[Row]) -> dict[str, Any]:
    """A space's part of the record."""
    return {
        "file": path.name,
        "problem": recording.problem,
        "device": recording.device,
        "configurations": len(recording.space.genomes),
        "correct": len(recording.scores_us),
        "optimum_us": recording.scores_us[0],
        "strategies": [asdict(each) for each in rows],
        "pairs": [paired(one, other) for one, other in combinations(rows, 2)],
    }


def show(name: str, each: Row) -> None:
    """One line for one strategy on one space."""
    print(
        f"{name} {each.strategy}: P mean {each.mean:.2f} [{each.mean_low:.2f}, {each.mean_high:.2f}], "
        f"median {each.median:.2f}, below 0 {each.below_random:.2f}, within 5 % {each.hits:.2f}, "
        f"{each.cpu_ms:.1f} ms a proposal",
        flush=True,
    )


def main() -> int:
    """Run every strategy on every space and write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("spaces", type=Path, nargs="+", help="Kernel Tuner caches, plain or gzip")
    parser.add_argument(
        "--strategies", default="evolution,surrogate", help="names with commas between, or all"
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("-o", "--output", type=Path, default=Path("replayed.json"))
    options = parser.parse_args()
    asked = {"budget": options.budget, "seeds": options.seeds, "first": options.first}
    head = {"command": command(), "date": str(date.today()), "version": __version__, **asked}
    done: dict[str, Any] = {}
    for path in options.spaces:
        recording, rows = read_recording(path), list[Row]()
        for strategy in chosen(options.strategies):
            rows.append(row(recording, strategy, **asked))
            show(path.name, rows[-1])
            done[path.name] = space_record(path, recording, rows)
            record = {**head, "spaces": list(done.values())}
            options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
