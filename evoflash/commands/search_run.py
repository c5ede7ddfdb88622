"""One command's work, assembled: plan a search, run it, find the best; the loop is search.py."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from evoflash import champions as champion
from evoflash.commands.progress import Progress
from evoflash.commands.termination import Terminated
from evoflash.compilers.nvrtc import first_error
from evoflash.cuda.launcher import present_gpu, spec_of
from evoflash.environment import environment
from evoflash.errors import DeviceError, EvoflashError, NoKernelError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run, RunKey, was_timed_again
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.finals_phase import run_finals
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.prepare import compile_only
from evoflash.families.family import Family, families_for, load_family
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.gpu_process import rung_times
from evoflash.gpu_process.finals import FinalReport
from evoflash.problem import Problem, parse_problem
from evoflash.search import Strategy, search
from evoflash.space import Genome, SearchSpace
from evoflash.store.store import Store, open_store
from evoflash.strategies import STRATEGIES, WITH_SEEDS, make_strategy

log = logging.getLogger(__name__)
EVALUATORS = ("gpu", "emulated")


@dataclass(frozen=True, slots=True)
class Field:
    """A family on a problem and a GPU: where a search looks."""

    family: Family
    space: SearchSpace
    seeds: tuple[Genome, ...]
    archived: tuple[Genome, ...] = ()  # the first of the seeds: the shipped archive's


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything a search is, before anything has run."""

    problem: Problem
    gpu: GpuSpec
    fields: tuple[Field, ...]
    strategy: str
    seed: int
    basis: Basis
    is_restricted: bool  # to one family, by the person

    @property
    def key(self) -> RunKey:
        """A search of one family, or one from the archive, is another run than one of neither."""
        strategy = f"{self.strategy}+archive" if self.archived else self.strategy
        strategy = f"{strategy}/{self.fields[0].family.name}" if self.is_restricted else strategy
        return RunKey(str(self.problem), self.gpu.name, self.basis, strategy, self.seed)

    @property
    def archived(self) -> tuple[Genome, ...]:
        """What of the shipped archive the search starts from."""
        return tuple(genome for field in self.fields for genome in field.archived)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search or a remeasurement came to."""

    best: Evaluation | None
    spent: int
    finals: FinalReport | None = (
        None  # the re-timing in turns with the baselines; None where nothing was timed
    )
    validator: str = ""  # its share of a candidate's time, in words; empty where nothing was timed


def plan(
    *,
    gpu: str | None,
    problem: str,
    strategy: str,
    seed: int,
    family: str | None,
    evaluator: str | None,
    budget: int,
    archive: bool = False,
) -> Plan:
    """Strings -> a checked Plan; UsageError or DeviceError say what does not fit.

    `archive`: start from what the shipped archive has near the problem. Off, as strategies are compared.
    """
    if budget < 1:
        raise UsageError(f"budget {budget}: give a whole number from 1 up.")
    if strategy not in STRATEGIES:
        raise UsageError(f"no strategy is called '{strategy}': use {' or '.join(STRATEGIES)}.")
    what = parse_problem(problem)
    spec, basis = where(gpu, evaluator)
    starts = archive and strategy in WITH_SEEDS
    found = (_field(each, what, spec, archive=starts) for each in _families(family, spec))
    fields = tuple(field for field in found if field)
    if not fields:
        asked = family or "any family"
        raise UsageError(f"{asked} has no kernel for '{what}' on {spec.name}: see `evoflash families`.")
    return Plan(what, spec, fields, strategy, seed, basis, is_restricted=family is not None)


def _field(family: Family, problem: Problem, gpu: GpuSpec, *, archive: bool) -> Field | None:
    """None when the family has no valid genome there."""
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    archived = champion.starts(problem, space, gpu.name) if archive else ()
    seeds = tuple(dict.fromkeys((*archived, *family.seeds_for(problem, space, gpu))))
    try:
        space.sample(np.random.default_rng(0))
    except UsageError:
        if not seeds:
            return None
    return Field(family, space, seeds, archived)


def where(gpu: str | None, evaluator: str | None) -> tuple[GpuSpec, Basis]:
    """The GPU to search for, and whether it is here to measure on."""
    if evaluator not in (None, *EVALUATORS):
        raise UsageError(f"no evaluator is called '{evaluator}': use {' or '.join(EVALUATORS)}.")
    wanted = load_gpu(gpu) if gpu else None
    present = None if evaluator == "emulated" and wanted else _present()
    is_here = present is not None and (wanted is None or present.name == wanted.name)
    spec = present if is_here else wanted
    if spec is None:
        raise UsageError("no known GPU is present: say which one the kernel is for, for example --gpu l4.")
    if evaluator == "gpu" and not is_here:
        here = present.name if present else "no known GPU"
        raise DeviceError(
            f"--evaluator gpu needs a {spec.name}, but {here} is present: use --evaluator emulated."
        )
    if is_here and evaluator != "emulated":
        return spec, Basis.MEASURED
    if evaluator is None:
        say(
            f"no {spec.name} here: correctness by the CPU emulator, times ESTIMATED by a model, not measured."
        )
    return spec, Basis.ESTIMATED


def _present() -> GpuSpec | None:
    """The known GPU of this machine, the driver's attributes in place of the file's; None without one."""
    try:
        device = present_gpu()
        spec = spec_of(device)
    except EvoflashError as error:
        log.info("%s", error)
        return None
    for line in device.differences(spec):
        say(f"{spec.name}: {line}; the driver's value is used.")
    return replace(spec, **dict(device.attributes))  # type: ignore[arg-type]  # they are all numbers


def _families(name: str | None, gpu: GpuSpec) -> tuple[Family, ...]:
    if name is not None:
        family = load_family(name)
        if not family.supports(gpu):
            raise UsageError(
                f"{name} needs {', '.join(family.arch)}, {gpu.name} is {gpu.arch}: choose another."
            )
        return (family,)
    return families_for(gpu)


def say(message: str) -> None:
    """One line for the person, on stderr; --quiet silences it."""
    if not os.environ.get("EVOFLASH_QUIET"):
        print(f"evoflash: {message}", file=sys.stderr, flush=True)


def run(
    plan: Plan, db: str, *, budget: int, time_limit_s: float | None, fresh: bool, argv: Sequence[str]
) -> Found:
    """Search to the budget, or until the time limit or Ctrl-C; on a GPU, then re-time the finalists."""
    with open_store(db) as store:
        found = environment() | _archive_note(plan)
        current = store.begin(
            plan.key, gpu_hash=plan.gpu.hash, budget=budget, argv=argv, environment=found, fresh=fresh
        )
        spent, finals = store.spent(current), None
        if spent >= budget and _is_final(store, current):
            say(f"this run has spent its budget ({spent} of {budget}): raise --budget or use --fresh.")
        else:
            with counting(store, current, budget=budget):
                finals = _search(plan, store, current, budget=budget, time_limit_s=time_limit_s)
        validator = rung_times.describe(e for _, e in store.history(current))
        return Found(store.best_of(current), store.spent(current), finals, validator)


@contextmanager
def counting(store: Store, current: Run, *, budget: int) -> Iterator[None]:
    """Ctrl-C or SIGTERM inside leaves with a note of what is stored, for termination.kept()."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        stop.add_note(f"{store.spent(current)} of {budget} evaluations are kept")
        raise


def _archive_note(plan: Plan) -> dict[str, str]:
    """What the run keeps of its start, and the person is told; nothing where the archive was not used."""
    if not plan.archived:
        return {}
    say(f"starting from {len(plan.archived)} archived kernels of {plan.gpu.name}; --no-archive: not.")
    return {"archive": " ".join(genome.id for genome in plan.archived)}


def _is_final(store: Store, current: Run) -> bool:
    """Whether nothing is left to time again: always, where nothing is measured or nothing was correct."""
    if current.key.basis is not Basis.MEASURED:
        return True
    best = store.best_of(current)
    return best is None or was_timed_again(best)


def _search(
    plan: Plan, store: Store, current: Run, *, budget: int, time_limit_s: float | None
) -> FinalReport | None:
    history = store.history(current)
    if history:
        say(f"continuing run {current.number} at {store.spent(current)} of {budget}.")
    strategy = strategy_of(plan)
    title = f"{', '.join(field.family.name for field in plan.fields)} for {plan.gpu.name}"
    past = [evaluation for _, evaluation in history]
    with evaluator(plan, past) as evaluates, Progress(title, plan.basis, budget, history) as progress:
        search(
            strategy,
            evaluates,
            store,
            current,
            budget=budget,
            time_limit_s=time_limit_s,
            on_evaluation=progress.show,
        )
        return run_finals(evaluates, store, current, said=progress.say)


def strategy_of(plan: Plan) -> Strategy:
    """One strategy for each family, and above several of them the bandit that shares the budget out."""
    members = {
        field.family.name: make_strategy(plan.strategy, field.space, seed=plan.seed, seeds=field.seeds)
        for field in plan.fields
    }
    if len(members) == 1:
        return next(iter(members.values()))
    from evoflash.strategies.family_bandit import Bandit

    return Bandit(members, seed=plan.seed)


def evaluator(plan: Plan, history: Sequence[Evaluation]) -> EmulatedEvaluator | MeasuredEvaluator:
    """The evaluator of the plan's basis."""
    kind = MeasuredEvaluator if plan.basis is Basis.MEASURED else EmulatedEvaluator
    return kind(plan.problem, plan.gpu, seed=plan.seed, history=history)


def dry_run(plan: Plan, *, budget: int) -> None:
    """Render and compile `budget` uniform genomes and print what ptxas says of each; stores nothing."""
    rng = np.random.default_rng(plan.seed)
    for at in range(budget):
        genome = plan.fields[at % len(plan.fields)].space.sample(rng)
        for build in compile_only(genome, plan.problem, plan.gpu):
            said = (
                f"{build.registers} registers, {build.spill_bytes} bytes spilled"
                if build.ok
                else first_error(build.log)
            )
            print(f"{genome.id}  {said}  {genome}")


def canonical(problem: str | None) -> str | None:
    """The database's key of a problem."""
    return None if problem is None else str(parse_problem(problem))


def known(gpu: str | None) -> str | None:
    """The name of a known GPU; UsageError for another."""
    return None if gpu is None else load_gpu(gpu).name


def find_best(store: Store, *, problem: str | None, gpu: str | None) -> Evaluation:
    """The kernel to use for a problem on a GPU; by default the newest problem and GPU of the store."""
    winner = store.best(canonical(problem), known(gpu))
    if winner is None:
        where = " ".join(x for x in (problem and f"for '{problem}'", gpu and f"on {gpu}") if x)
        raise NoKernelError(
            f"no correct kernel {where or 'yet'} in the database: run `evoflash search` first."
        )
    if winner.basis is Basis.ESTIMATED:
        say(
            "all there is is an estimate: the kernel is checked by the emulator, its time was never measured."
        )
    return winner
