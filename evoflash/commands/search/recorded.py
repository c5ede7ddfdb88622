"""A search on a recorded space, stored as a run of its own, and what it says at its end. Evaluates no kernel.

The file format is replay/kernel_tuner.py's.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from evoflash.commands import kernel_report
from evoflash.commands.progress import Progress
from evoflash.commands.search.limits import Limits
from evoflash.commands.search.run import SearchResult, counting, result_of
from evoflash.commands.terminal import say
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, RunKey
from evoflash.replay.evaluator import ReplayedEvaluator
from evoflash.replay.kernel_tuner import cache_text, read_recording
from evoflash.replay.recorded_space import Recording
from evoflash.search import search
from evoflash.settings.values import is_on
from evoflash.store.store import open_store
from evoflash.strategies import make_strategy
from evoflash.timing.environment import environment


def search_recording(
    path: Path,
    db: str,
    *,
    strategy: str,
    seed: int,
    limits: Limits,
    fresh: bool,
    argv: Sequence[str],
) -> SearchResult:
    """A search on a recorded space, stored as a run of basis `replayed`; resumes like any other."""
    if limits.until is not None:
        raise UsageError("a recorded space has no physical floor: --until is for searches on kernels.")
    recording = read_recording(path)
    chosen = make_strategy(strategy, recording.space, seed=seed)
    key = RunKey(recording.problem, recording.device, Basis.REPLAYED, strategy, seed)
    with open_store(db) as store:
        current = store.begin(
            key,
            gpu_hash=_digest(recording),
            budget=limits.stored_budget,
            argv=argv,
            environment=environment(),
            fresh=fresh,
        )
        history = store.history(current)
        if limits.is_spent(store.spent(current)):  # the loop below then spends nothing
            say(f"this run has spent its budget ({limits.budget}): raise --budget or use --fresh.")
        title = f"{recording.problem} on {recording.device}"
        showing = Progress(title, _shown_as(recording), limits, history)
        with counting(store, current, limits), showing as progress:
            search(
                chosen,
                ReplayedEvaluator(recording),
                store,
                current,
                budget=limits.budget,
                time_limit_s=limits.seconds,
                on_evaluation=progress.show,
            )
        return result_of(store, current)


def _shown_as(recording: Recording) -> Basis:
    """An estimate keeps its mark in a replay."""
    return Basis.ESTIMATED if recording.basis is Basis.ESTIMATED else Basis.REPLAYED


def _digest(recording: Recording) -> str:
    # A record that has changed is another machine: its results do not continue those of the old one.
    return hashlib.sha256(cache_text(recording).encode()).hexdigest()[:12]


def describe(result: SearchResult, *, as_json: bool, price_per_hour: float | None = None) -> str:
    """The best configuration, as text or JSON; its problem need not be one of ours."""
    if as_json or is_on("quiet"):
        return kernel_report.describe_end(result, as_json=as_json, price_per_hour=price_per_hour)
    best = result.best
    assert best is not None, "a search without a kernel is an error, not a report"
    lines = (
        f"config    {best.genome.id}  {best.genome.family}",
        f"values    {' '.join(f'{name}={value}' for name, value in best.genome.values)}",
        f"problem   {best.problem}   on {best.gpu}",
        f"time      {kernel_report.time_in_words(best)}; best of {result.spent} evaluations",
    )
    return "\n".join(lines)
