"""Reads kernels' hardware counters on this machine's GPU, and stores them beside the kernels' evaluations.

They are read for `evoflash profile`, and for the finalists of `evoflash search --profile`. What reads them is
NVIDIA's Nsight Compute; times under it rank nothing.
"""

import re
import time
from dataclasses import dataclass
from typing import Any

from evoflash.app.compare import contenders
from evoflash.app.kernel_lookup import stored_evaluations
from evoflash.app.runs import closing_database
from evoflash.errors import DeviceError, StoreError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run, was_timed_again
from evoflash.evaluators.gpu_tasks import task_template
from evoflash.evaluators.prepare import compile_only
from evoflash.gpu import baselines, launcher
from evoflash.gpu.counters import ncu_program, profile
from evoflash.hardware_counters import KernelProfile
from evoflash.notices import say, working
from evoflash.problem import Problem
from evoflash.specs import GpuSpec
from evoflash.store.profiles import has_profile, keep_profile, newest_run_with
from evoflash.store.store import Store

MOST_S = 90.0  # of a search's finalists together; the one that is being read then is read to its end


@dataclass(frozen=True, slots=True)
class ProfiledKernel:
    """The counters of one kernel, and what the model and the clock say of it."""

    name: str
    problem: str
    gpu: str
    counters: KernelProfile
    guess: str = ""  # what the performance model names as limiting; empty where it was not asked
    score_us: float | None = None  # as it was measured, without a profiler
    run: int | None = None  # with which the counters are stored; None: they are not

    def as_dict(self) -> dict[str, Any]:
        """Where, and each launch's counters with what they say."""
        about = {name: getattr(self, name) for name in ("problem", "gpu", "guess", "score_us", "run")}
        return {"kernel": self.name, **about, **self.counters.as_dict()}


def profile_kernel(word: str, *, problem: str | None, seed: int, db: str) -> ProfiledKernel:
    """The counters of the kernel that `word` names, a candidate's id or a .cu file.

    DeviceError without a GPU, without Nsight Compute, and where it may not read counters; UsageError for what
    is no kernel of ours: a library's launches are of no source that evoflash has.
    """
    if word in baselines.NAMES:
        raise UsageError(f"{word} is a library's kernel: give a candidate's id or a .cu file.")
    spec = launcher.present_spec(None)
    ncu_program()
    what, (kernel,) = contenders((word,), problem=problem, spec=spec, db=db, seed=seed)
    assert kernel.task is not None, "a library's kernel was refused"
    with working(f"reading the counters of {word} with Nsight Compute"):
        counters = profile(kernel.task, what.workloads)
    there = str(what), spec.name
    known = [e for e in _evaluations_of(kernel.name, db) if (e.problem, e.gpu) == there]
    return ProfiledKernel(
        kernel.name,
        str(what),
        spec.name,
        counters,
        guess=next((each.bound for each in known if each.bound), ""),
        score_us=next((each.score_us for each in known if each.basis is Basis.MEASURED), None),
        run=_keep(kernel.name, str(what), spec.name, counters, db) if known else None,
    )


def _evaluations_of(name: str, db: str) -> list[Evaluation]:
    """Those of a candidate; a file has none under its name."""
    return stored_evaluations(name, db) if re.fullmatch(r"[0-9a-f]{16}", name) else []


def _keep(genome_id: str, problem: str, gpu: str, counters: KernelProfile, db: str) -> int | None:
    """With the newest run that evaluated the kernel there; None where there is none, or it cannot be."""
    try:
        with closing_database(db) as database:
            run = newest_run_with(database, genome_id, problem, gpu)
            if run is not None:
                keep_profile(database, run, genome_id, counters)
    except StoreError as error:  # they took a while to read: they are shown
        say(f"the counters are not stored: {error}")
        return None
    return run


def profile_finalists(store: Store, run: Run, problem: Problem, gpu: GpuSpec) -> None:
    """Read and store the counters of the kernels that were timed in turns, the fastest first; of the best one
    where none was. Why that cannot be done is said in a line: the search is over, and its results stand.
    """
    best = store.best_of(run)
    again = [each for _, each in store.history(run) if each.is_correct and was_timed_again(each)]
    finalists = sorted(
        (each for each in again if not each.duplicate_of), key=lambda each: each.score_us or 0.0
    )
    template, until = task_template(problem, gpu, seed=run.key.seed), time.monotonic() + MOST_S
    for each in finalists or ([best] if best is not None else []):
        if has_profile(store.database, run.id, each.genome.id):
            continue
        if time.monotonic() > until:
            say(
                f"reading counters took over {MOST_S:.0f} s: `evoflash profile ID` reads those that are left."
            )
            return
        task = template.task_of(each.genome, compile_only(each.genome, problem, gpu))
        say(f"reading the counters of {each.genome.id} with Nsight Compute")
        try:
            found = profile(task, problem.workloads)
        except DeviceError as error:
            say(f"no counters: {error}")
            return
        keep_profile(store.database, run.id, each.genome.id, found)
