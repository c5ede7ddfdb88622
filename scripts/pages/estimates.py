"""Makes evoflash/champions/<gpu>_estimates.json: what the performance model says of each archived kernel.

    python -m scripts.pages.estimates h200

Each champion is compiled and emulated for its problem, as `evoflash evaluate` does without a GPU: two minutes
on two cores. To be run anew where the archive, the model's constants or a family change. Measures nothing.
"""

import argparse
import json
import sys

from evoflash.champions import champions, of_today
from evoflash.champions.evidence import ESTIMATES
from evoflash.evaluation import Proposal
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.kernels.family import load_family
from evoflash.paths import CHAMPIONS
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.specs import GpuSpec, load_gpu
from scripts.records import command


def estimates_us(gpu: GpuSpec, problems: frozenset[str] | None = None) -> dict[str, float]:
    """By problem, of those named or of all; a champion that is no kernel of today is left out."""
    found = {}
    for each in champions(gpu.name):
        what = parse_problem(each.problem)
        today = of_today(each, load_family(each.genome.family).space(what.compile_keys(gpu.arch), gpu))
        if today is None or (problems is not None and each.problem not in problems):
            continue
        with EmulatedEvaluator(what, gpu, seed=0, proves_all=True) as evaluator:
            evaluator.submit(Proposal(today.genome))
            _, evaluation = evaluator.collect()
        if evaluation.is_correct and evaluation.score_us:
            found[each.problem] = round(evaluation.score_us, 3)
    return found


def main() -> int:
    """Estimate and write; a line for each champion."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("gpu", help="whose archive")
    gpu = load_gpu(parser.parse_args().gpu)
    found = estimates_us(gpu)
    said = {"made_by": command(), "model_version": model_version(), "estimates_us": found}
    path = CHAMPIONS / f"{gpu.name}{ESTIMATES}"
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    measured = {each.problem: each.us for each in champions(gpu.name)}
    for what, us in found.items():
        print(f"{us:10.2f} us estimated, {measured[what]:10.2f} us measured  {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
