"""How a winner came about, hop by hop, and what each of its values is worth. Stores nothing.

"Why did it win" is answered by what was tried: its own hops, and candidates that differ from it in one gene.
On request the hops and the libraries are timed again in turns on this machine's GPU.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evoflash.app.insights import Generation
from evoflash.app.report.candidates import History
from evoflash.app.report.record import Hop, Lineage, Neighbour, short
from evoflash.app.search.session import swap_pair
from evoflash.errors import DeviceError, EvoflashError
from evoflash.estimate_error import estimate_error
from evoflash.evaluation import FINAL, Evaluation, score
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.gpu.launcher import present_spec
from evoflash.gpu.process.finals import FinalReport, failed_check
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.notices import count_of, say
from evoflash.problem import parse_problem
from evoflash.space import Genome, Value

NOT_RETIMED = "Times are those of the search; `evoflash report --retime` times every hop again, in turns."


def lineage(
    steps: Sequence[Generation], history: History, best: Evaluation | None, again: "RetimedLineage | None"
) -> Lineage:
    """The hops from a seed or a sample to the winner; empty without a winner."""
    if best is None:
        return Lineage((), "", (), ())
    outcomes = {evaluation.genome.id: evaluation for _, evaluation in history}
    hops = tuple(
        _hop(step, before, outcomes, again) for before, step in zip((None, *steps), steps, strict=False)
    )
    near = neighbours(history, best)
    mark = "~" if best.is_estimate else ""
    error = estimate_error(best.genome.family) if best.is_estimate else None
    told_from = error.spread if error else 1.0
    says = (*_whole(hops, mark), *_best_hop(hops, mark), *_of_neighbours(near, mark, told_from))
    return Lineage(hops, again.how if again else NOT_RETIMED, near, says)


def _hop(
    step: Generation,
    before: Generation | None,
    outcomes: Mapping[str, Evaluation],
    again: "RetimedLineage | None",
) -> Hop:
    evaluation = outcomes[step.genome_id]
    pair = again.pair(step.genome_id, before.genome_id) if again and before else None
    was = before.score_us if before else None
    again_us = again.us.get(step.genome_id) if again else None
    return Hop(
        id=step.genome_id,
        family=evaluation.genome.family,
        operator=step.operator,
        genes=tuple((gene, old, new) for gene, (old, new) in step.changes.items()),
        us=step.score_us,
        change=step.score_us / was if step.score_us and was else None,
        bound=evaluation.bound,
        again_us=again_us,
        again_change=pair.ratio if pair else None,
        again_low=pair.low if pair else None,
        again_high=pair.high if pair else None,
        again_answer=pair.answer if pair else "",
    )


def neighbours(history: History, best: Evaluation) -> tuple[Neighbour, ...]:
    """Candidates that differ from the winner in one gene alone, the nearest times first, the wrong ones last.

    A gene that is active in one of them only counts with the gene that makes it so: they are left out.
    """
    found = [_neighbour(each, best) for _, each in history if not each.duplicate_of]
    near = [each for each in found if each is not None]
    return tuple(sorted(near, key=lambda each: (each.us is None, each.us or 0.0, each.gene)))


def _neighbour(each: Evaluation, best: Evaluation) -> Neighbour | None:
    mine, theirs = best.genome.as_dict(), each.genome.as_dict()
    if each.genome.family != best.genome.family or set(mine) != set(theirs):
        return None
    differ = [gene for gene, value in mine.items() if theirs[gene] != value]
    if len(differ) != 1:
        return None
    (gene,), us = differ, each.learnt_us if not each.is_censored else None
    over = us / best.score_us if us and best.score_us else None
    return Neighbour(each.genome.id, gene, theirs[gene], mine[gene], us, over, str(each.status))


# ---- in sentences


def _whole(hops: Sequence[Hop], mark: str) -> list[str]:
    if len(hops) == 1:
        return [f"The winner is the first of its line ({hops[0].operator}): no hop led to it."]
    first, last = hops[0], hops[-1]
    if not first.us or not last.us:
        return []
    factor = first.us / last.us
    return [
        f"{len(hops) - 1} hops led from {first.id} ({first.operator}, {mark}{short(first.us)} us) to the "
        f"winner ({mark}{short(last.us)} us): {mark}{factor:.3f} times as fast."
    ]


def _best_hop(hops: Sequence[Hop], mark: str) -> list[str]:
    gained = [hop for hop in hops if hop.change is not None and hop.change < 1]
    if not gained:
        return []
    hop = min(gained, key=lambda each: each.change or 1.0)
    less = f"{100 * (1 - (hop.change or 1.0)):.1f} %"
    genes = "; ".join(f"{gene} {_word(old)} to {_word(new)}" for gene, old, new in hop.genes)
    return [f"The hop that gained most took {mark}{less} off, by {hop.operator}: {genes}."]


def _of_neighbours(near: Sequence[Neighbour], mark: str, told_from: float) -> list[str]:
    """`told_from`: the factor from which on a model tells a slower kernel; 1 where times were measured."""
    timed = [each for each in near if each.over_best is not None]
    if not near:
        return ["No candidate differs from the winner in one gene alone: no value's worth is known here."]
    slower = [each for each in timed if (each.over_best or 0) > told_from]
    by = f" by more than the model's error, {100 * (told_from - 1):.0f} %" if told_from > 1 else ""
    count = count_of(len(near), "candidate")
    said = f"{count} differ from the winner in one gene alone; {len(slower)} of them are slower{by}"
    if wrong := len(near) - len(timed):
        said += f", {wrong} failed or have only a lower bound"
    if not slower:
        return [f"{said}."]
    most = max(slower, key=lambda each: each.over_best or 0.0)
    value, other = _word(most.best_value), _word(most.value)
    worth = f"{mark}{100 * ((most.over_best or 1.0) - 1):.1f} %"
    return [
        f"{said}. The value that matters most is {most.gene} = {value}: with {other} it is {worth} slower."
    ]


def _word(value: Value | None) -> str:
    return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class RetimedLineage:
    """Final times by genome id, and every pair; `how` says on what."""

    us: Mapping[str, float]
    pairs: tuple[PairedComparison, ...]
    how: str

    def pair(self, first: str, second: str) -> PairedComparison | None:
        """The first over the second; None where they were not timed on one workload, or on several."""
        ways = {(first, second): _as_it_is, (second, first): swap_pair}
        found = [ways[p.first, p.second](p) for p in self.pairs if (p.first, p.second) in ways]
        return found[0] if len(found) == 1 else None


def _as_it_is(pair: PairedComparison) -> PairedComparison:
    return pair


def retime(genomes: Sequence[Genome], problem: str, gpu: str) -> RetimedLineage:
    """Time the genomes in turns, in a fresh GPU process; each output is checked as it was timed.

    DeviceError where that GPU is not here; EvoflashError where they could not be timed, or one is wrong.
    """
    try:
        spec = present_spec(gpu)
    except DeviceError as error:
        raise DeviceError(f"--retime times the lineage on {gpu}, and there is none here: {error}") from None
    say(f"timing {len(genomes)} kernels of the lineage in turns on {spec.name}")
    with MeasuredEvaluator(parse_problem(problem), spec, seed=0) as evaluates:
        report = evaluates.in_turns([evaluates.task_of(genome) for genome in genomes])
    if report is None:
        raise EvoflashError("the lineage could not be timed again: leave --retime away, or try again.")
    return _again(report, [genome.id for genome in genomes], spec.name)


def _again(report: FinalReport, ids: Sequence[str], gpu: str) -> RetimedLineage:
    for name in ids:
        if wrong := failed_check(report, name):
            raise EvoflashError(f"{name} is wrong as it was timed ({wrong}): `evoflash check {name}`.")
    us = {
        name: score([timing.median_us for timing in report.timings[name] if timing.protocol in FINAL])
        for name in ids
    }
    pairs = tuple(pair for pair in report.comparisons if pair.protocol in FINAL)
    return RetimedLineage(us, pairs, f"All hops were timed again for this report, in turns, on {gpu}.")
