"""The last phase of a search, in which the best kernels face hidden shapes, then baselines.

They are emulated, too, on what takes too long for every candidate; without a GPU the best one alone. What
came of it is stored.
The phase follows the loop (search.py) and proposes nothing. It checks and times nothing itself: the evaluator
does, and gpu/process/finals.py says what is compared with what.
"""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from evoflash.evaluation import FINAL, Run, Rung, Status, score
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.pipeline import FinalistProof
from evoflash.evaluators.prepare import PreparationFailure
from evoflash.gpu.process.finals import FinalReport, failed_check, row_of
from evoflash.gpu.process.rungs import GpuTask
from evoflash.notices import call_if_late
from evoflash.space import Genome
from evoflash.store.store import Store

log = logging.getLogger(__name__)
FINALISTS = 5
_PATIENCE_S = 15.0
_A_SEARCH = 20  # outcomes; the best of fewer is no finalist: its proof would take longer than all of them
# of the fastest: two times of one search, taken beside the same kernel, differ by a quarter of it
_WITHIN = 1.02


def time_finalists(
    evaluates: EmulatedEvaluator | MeasuredEvaluator,
    store: Store,
    run: Run,
    *,
    said: Callable[[str], None] = lambda _: None,
) -> FinalReport | None:
    """Promote the run's best: check them on shapes that the search never saw, time them and the baselines
    again, in turns, in a fresh process, and store what came out; `said` hears that this begins.

    The emulator proves them meanwhile. Where it finds one wrong, the next ones follow, and nothing of that
    timing is kept.

    Returns None where times are estimates, and when nothing was left to time.
    """
    if isinstance(evaluates, EmulatedEvaluator):
        return None
    said("timing the finalists and the baselines in turns, in a fresh process")
    while finalists := promote(evaluates, store, run, said=said):
        report = evaluates.in_turns([each.task for each in finalists])
        if len(proven(finalists, store, run, said=said)) < len(finalists):
            continue
        if report is not None:
            _keep(report, {each.genome.id for each in finalists}, evaluates, store, run)
        if report is None or len(report.hung) < len(finalists):
            return report
    return None


def prove_best(
    evaluates: EmulatedEvaluator | MeasuredEvaluator,
    store: Store,
    run: Run,
    *,
    said: Callable[[str], None] = lambda _: None,
) -> None:
    """Emulate the best by its estimate on what takes too long for every candidate; the store rejects it where
    it is wrong, and the next one follows, until one is right. Nothing where there is a GPU, whose finalists
    promote() proves, nor after a handful of kernels.
    """
    if not isinstance(evaluates, EmulatedEvaluator) or len(store.history(run)) < _A_SEARCH:
        return
    said("emulating the best kernel on the check shapes, on more tails and on larger sizes")
    for genome, _ in _fastest(store, run):
        failure = evaluates.proof_as_finalist(genome).failure()
        if failure is None:
            break
        _reject(store, run, genome, failure)


@dataclass(frozen=True, slots=True)
class Finalist:
    """One of the best, right on hidden shapes; the emulator may still be at work on it."""

    genome: Genome
    task: GpuTask
    proof: FinalistProof


def promote(
    retimer: MeasuredEvaluator,
    store: Store,
    run: Run,
    *,
    count: int = FINALISTS,
    said: Callable[[str], None] = lambda _: None,
) -> list[Finalist]:
    """Of the `count` fastest candidates those that are right on hidden shapes too, as far as they are within
    2 % of the fastest of these; where none is, the next one that is right. The store rejects those that are
    wrong. The emulator begins on what takes too long for every candidate, and not after a handful of kernels:
    proven() waits for it.

    Shapes and data come from a seed that is drawn for this: no search can have met it. A rejection names it.
    """
    fastest, is_proven = _fastest(store, run), len(store.history(run)) >= _A_SEARCH
    likely = [genome for genome, us in fastest[:count] if us <= _WITHIN * fastest[0][1]] if is_proven else []
    proofs = {genome.id: retimer.proof_as_finalist(genome) for genome in likely}
    seed = retimer.begin_finals()
    log.info("hidden shapes: seed %d", seed)
    right, slowest_us = list[Finalist](), math.inf
    for place, (genome, score_us) in enumerate(fastest):
        if score_us > slowest_us or (right and place >= count):
            break
        task = retimer.task_of(genome)
        proof = proofs.get(genome.id)
        if proof is None:
            proof = retimer.proof_as_finalist(genome) if is_proven else FinalistProof()
        with _tell_if_late(said, f"waiting for {genome.id} on hidden shapes"):
            outcome = retimer.checked_on_hidden_shapes(task, genome, seed=seed)
        if outcome.status is not Status.CORRECT:
            reason = f"hidden shape, seed {seed}: {outcome.reason}"
            store.reject(run, task.genome_id, rung=outcome.rung, reason=reason)
            said(f"rejected {task.genome_id}: {reason}")
        else:
            right.append(Finalist(genome, task, proof))
            slowest_us = min(slowest_us, _WITHIN * score_us)
    return right


def proven(
    finalists: Sequence[Finalist], store: Store, run: Run, *, said: Callable[[str], None] = lambda _: None
) -> list[Finalist]:
    """Those that the emulator finds right, once it is done with all; the store rejects the others."""
    right = []
    for each in finalists:
        with _tell_if_late(said, f"waiting for the emulator, which runs {each.genome.id}"):
            failure = each.proof.failure()
        if failure:
            _reject(store, run, each.genome, failure)
        else:
            right.append(each)
    return right


def _tell_if_late(said: Callable[[str], None], doing: str) -> AbstractContextManager[None]:
    """Say what is waited for where that takes longer than people like to wait without a word."""
    words = f"{doing}, for {_PATIENCE_S:.0f} s so far"
    return call_if_late(partial(said, words), after_s=_PATIENCE_S)


def _reject(store: Store, run: Run, genome: Genome, failure: PreparationFailure) -> None:
    reason = f"as a finalist: {failure.reason}"
    store.reject(run, genome.id, rung=failure.rung, reason=reason, status=failure.status)


def _fastest(store: Store, run: Run) -> list[tuple[Genome, float]]:
    correct = [e for _, e in store.history(run) if e.is_correct and not e.duplicate_of and not e.is_censored]
    timed = [(e.genome, e.score_us) for e in correct if e.score_us is not None]
    return sorted(timed, key=lambda pair: pair[1])


def _keep(
    report: FinalReport, finalists: set[str], retimer: MeasuredEvaluator, store: Store, run: Run
) -> None:
    for name, reason in report.hung.items():
        store.reject(run, name, rung=Rung.TIMING, reason=reason, status=Status.TIMEOUT)
    for name, timings in report.timings.items():
        score_us = score([t.median_us for t in timings if t.protocol in FINAL])
        if name not in finalists:
            if row := row_of(report, name, problem=retimer.problem, gpu=retimer.gpu.name):
                store.add_baseline(run, row)
        elif wrong := failed_check(report, name):
            store.reject(run, name, rung=Rung.TIMING, reason=wrong)
        else:
            store.update_timings(run, name, timings, score_us)
