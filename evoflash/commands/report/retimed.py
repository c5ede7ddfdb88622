"""A lineage timed again on this machine's GPU, all its hops and the libraries in turns. Stores nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoflash.commands.search.final_pairs import mirrored
from evoflash.commands.terminal import say
from evoflash.cuda.launcher import present_spec
from evoflash.errors import DeviceError, EvoflashError
from evoflash.evaluation import FINAL, score
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.gpu_process.finals import FinalReport, failed_check
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.timing.pair import Comparison


@dataclass(frozen=True, slots=True)
class Again:
    """Final times by genome id, and every pair; `how` says on what."""

    us: Mapping[str, float]
    pairs: tuple[Comparison, ...]
    how: str

    def pair(self, first: str, second: str) -> Comparison | None:
        """The first over the second; None where they were not timed on one workload, or on several."""
        ways = {(first, second): _as_it_is, (second, first): mirrored}
        found = [ways[p.first, p.second](p) for p in self.pairs if (p.first, p.second) in ways]
        return found[0] if len(found) == 1 else None


def _as_it_is(pair: Comparison) -> Comparison:
    return pair


def timed_again(genomes: Sequence[Genome], problem: str, gpu: str) -> Again:
    """Time the genomes in turns, in a fresh GPU process; each output is checked as it was timed.

    DeviceError where that GPU is not here; EvoflashError where they could not be timed, or one is wrong.
    """
    try:
        spec = present_spec(gpu)
    except DeviceError as error:
        raise DeviceError(f"--retime times the lineage on {gpu}, and there is none here: {error}") from None
    say(f"timing {len(genomes)} kernels of the lineage in turns on {spec.name}")
    with MeasuredEvaluator(parse_problem(problem), spec, seed=0) as evaluates:
        retimer = evaluates.retimer
        report = retimer.in_turns([retimer.task_of(genome) for genome in genomes])
    if report is None:
        raise EvoflashError("the lineage could not be timed again: leave --retime away, or try again.")
    return _again(report, [genome.id for genome in genomes], spec.name)


def _again(report: FinalReport, ids: Sequence[str], gpu: str) -> Again:
    for name in ids:
        if wrong := failed_check(report, name):
            raise EvoflashError(f"{name} is wrong as it was timed ({wrong}): `evoflash check {name}`.")
    us = {
        name: score([timing.median_us for timing in report.timings[name] if timing.protocol in FINAL])
        for name in ids
    }
    pairs = tuple(pair for pair in report.comparisons if pair.protocol in FINAL)
    return Again(us, pairs, f"All hops were timed again for this report, in turns, on {gpu}.")
