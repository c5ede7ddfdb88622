"""Searches a recorded space and stores that as a run of its own. Evaluates no kernel.

The file's format is that of replay/kernel_tuner.py.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from evoflash.app.recordings import recording_of
from evoflash.app.search.language_model import LanguageModel, beside, trials_of
from evoflash.app.search.limits import Limits
from evoflash.app.search.session import NotesOnly, RunResult, Watch, counting, noting_end, result_of
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, RunKey, RunStart
from evoflash.gpu.timing.noise_floor import environment
from evoflash.llm.prompt import KernelTask
from evoflash.notices import say
from evoflash.replay.kernel_tuner import cache_text
from evoflash.replay.recorded_space import Recording, ReplayedEvaluator
from evoflash.search import search
from evoflash.store.store import open_store
from evoflash.strategies import make_strategy, strategy_parts


def search_recording(
    path: Path,
    db: str,
    *,
    strategy: str,
    seed: int,
    limits: Limits,
    fresh: bool,
    argv: Sequence[str],
    watch: Watch = NotesOnly,
    llm: LanguageModel | None = None,
) -> RunResult:
    """A search on a recorded space, stored as a run of basis `replayed`; resumes like any other."""
    if limits.until is not None:
        raise UsageError("a recorded space has no physical floor: --until is for searches on kernels.")
    recording = recording_of(path)
    if not recording.scores_us:
        raise UsageError(f"no configuration of {recording.problem} was correct: there is none to find.")
    chosen = make_strategy(strategy, recording.space, seed=seed)
    parts = strategy_parts(strategy)
    name = llm.name if llm else ""
    key = RunKey(recording.problem, recording.device, Basis.REPLAYED, seed=seed, **parts, llm=name)
    conditions = dict.fromkeys(recording.space.when, "as other genes stand")
    rules = {check.name: "" for check in recording.space.checks}
    about = ({"name": recording.device}, None, "A recorded space.", recording.space)
    task = KernelTask(recording.problem, *about, conditions, rules)
    with open_store(db) as store:
        current = store.begin(
            key,
            gpu_hash=_digest(recording),
            budget=limits.stored_budget,
            argv=argv,
            environment=environment(),
            start=RunStart(llm_trials=trials_of(llm, key, store, limits.budget)),
            fresh=fresh,
        )
        history = store.history(current)
        if limits.is_spent(store.spent_budget(current)):  # the loop below then spends nothing
            say(f"this run has spent its budget ({limits.budget}): raise --budget or use --fresh.")
        title = f"{recording.problem} on {recording.device}"
        showing = watch(title, _display_basis(recording), limits, history)
        with (
            counting(store, current, limits),
            showing as progress,
            noting_end(store, current, limits),
            beside(chosen, llm, [task], store, current) as strategy_beside,
        ):
            search(
                strategy_beside,
                ReplayedEvaluator(recording),
                store,
                current,
                budget=limits.budget,
                time_limit_s=limits.seconds,
                on_evaluation=progress.show,
            )
        return result_of(store, current)


def _display_basis(recording: Recording) -> Basis:
    """An estimate keeps its mark in a replay."""
    return Basis.ESTIMATED if recording.basis is Basis.ESTIMATED else Basis.REPLAYED


def _digest(recording: Recording) -> str:
    # A record that has changed is another machine: its results do not continue those of the old one.
    return hashlib.sha256(cache_text(recording).encode()).hexdigest()[:12]
