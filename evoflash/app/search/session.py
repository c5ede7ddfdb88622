"""Runs a plan to its budget or until Ctrl-C, and stores the run; a dry run stores nothing. Plans nothing.

The loop is evoflash/search.py. The pairs of the winner's final timing are kept with the run, and
what a command takes while it works on a run is charged to the run in the store.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, Self

import numpy as np

from evoflash.app.leaderboard import Only, Rankings, read_front
from evoflash.app.model_credit import ModelCredit, credit
from evoflash.app.objectives import LATENCY
from evoflash.app.runs import cost_as_dict
from evoflash.app.search import transfer
from evoflash.app.search.edited_sources import source_judge
from evoflash.app.search.language_model import as_repeated, beside, kernel_task, trials_of
from evoflash.app.search.limits import Limits, floor_us, is_near
from evoflash.app.search.machines import HERE, Machines
from evoflash.app.search.plan import SearchPlan
from evoflash.app.search.proposing import proposals_from
from evoflash.app.search.stopping import TerminatedError
from evoflash.champions.evidence import archived_kernel
from evoflash.errors import EvoflashError, StoreError
from evoflash.estimate_error import ties
from evoflash.evaluation import FINAL, Basis, Build, Evaluation, Proposal, Run, was_timed_again
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.finals import prove_best, time_finalists
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.prepare import compile_only
from evoflash.gpu.counters import missing_profiler
from evoflash.gpu.process import outcome as rung_times
from evoflash.gpu.process.finals import FinalReport, conclusion
from evoflash.gpu.timing.noise_floor import environment
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.hardware_counters import KernelProfile
from evoflash.isolation import cpu_seconds
from evoflash.kernels.family import known_families
from evoflash.kernels.nvrtc import first_error
from evoflash.notices import say
from evoflash.search import search
from evoflash.space import Genome
from evoflash.store.database import Database
from evoflash.store.profiles import read_profile
from evoflash.store.run_edits import delete
from evoflash.store.run_status import ComputeCost, charge, costs
from evoflash.store.store import Store, open_store

log = logging.getLogger(__name__)
_NOTE_EVERY_S = 10.0


def pairs_of(report: FinalReport, winner: str) -> list[PairedComparison]:
    """The pairs that the winner is one of, in the protocol that ranks, the winner first in each."""
    pairs = [pair for pair in report.comparisons if winner in (pair.first, pair.second)]
    return [pair if pair.first == winner else swap_pair(pair) for pair in pairs if pair.protocol in FINAL]


def swap_pair(pair: PairedComparison) -> PairedComparison:
    """The second over the first."""
    low, high = 1 / pair.high, 1 / pair.low
    return replace(pair, first=pair.second, second=pair.first, ratio=1 / pair.ratio, low=low, high=high)


def read_pairs(run: Run) -> tuple[PairedComparison, ...]:
    """What `keep_pairs` kept; none where nothing was. StoreError where it cannot be read."""
    try:
        return tuple(PairedComparison(**pair) for pair in run.final_pairs)
    except TypeError:
        raise StoreError("the run's final_pairs cannot be read: `evoflash db check` looks into it.") from None


class Meter:
    """Counts from its making on; `note` charges the run with what has come since the last note."""

    def __init__(self, database: Database, run: Run, elsewhere_s: Callable[[], float] = float) -> None:
        """`elsewhere_s`: CPU seconds so far of workers on other machines."""
        self._database, self._run, self._elsewhere_s = database, run, elsewhere_s
        self._noted_s, self._last_note = self._now(), time.monotonic()

    def note(self) -> None:
        """Charge the run."""
        # A process that its parent did not wait for takes its seconds with it: what was noted stays.
        (gpu_s, cpu_s), noted_s = self._now(), self._noted_s
        now_s = max(gpu_s, noted_s[0]), max(cpu_s, noted_s[1])
        spent = ComputeCost(*(now - before for now, before in zip(now_s, self._noted_s, strict=True)))
        charge(self._database, self._run, spent)
        self._noted_s, self._last_note = now_s, time.monotonic()

    def note_now_and_then(self) -> None:
        """As note(), but at most every ten seconds."""
        if time.monotonic() - self._last_note >= _NOTE_EVERY_S:
            self.note()

    def _now(self) -> tuple[float, float]:
        """Seconds of the GPU and of the CPU so far."""
        gpu_s = time.monotonic() if self._run.key.basis is Basis.MEASURED else 0.0
        return gpu_s, cpu_seconds() + self._elsewhere_s()


@contextmanager
def meter_run(database: Database, run: Run, elsewhere_s: Callable[[], float] = float) -> Iterator[Meter]:
    """Charge the run at the end, however it ends."""
    meter = Meter(database, run, elsewhere_s)
    try:
        yield meter
    except BaseException as end:
        try:
            meter.note()
        except StoreError as error:  # what ended the work is the news
            if not isinstance(end, StoreError):
                log.warning("what this took could not be noted: %s", error)
        raise
    meter.note()


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a search or a remeasurement came to."""

    best: Evaluation | None
    spent: int
    finals: FinalReport | None = None  # the timing in turns with the baselines, where there was one
    validator: str = ""  # its share of a candidate's time, in words; empty where nothing was timed
    cost: ComputeCost | None = None  # of the run, all its commands together
    library: tuple[str, float] | None = None  # the fastest that was timed in this run, and its time in us
    tied: tuple[str, ...] = ()  # in sentences: estimates that are not told from the winner's
    front: Rankings | None = None  # the Pareto front, where other objectives than latency were asked for
    run: Run | None = None  # which of the database's it is
    credit: ModelCredit | None = None  # of the language model, where there was one
    counters: KernelProfile | None = None  # of the best kernel, where they were read

    @property
    def against_libraries(self) -> list[PairedComparison]:
        """The winner over each library, from the times that were taken in turns."""
        if self.finals is None or self.best is None:
            return []
        mine, libraries = self.best.genome.id, self.finals.environment
        return [c for c in self.finals.comparisons if c.first == mine and c.second in libraries]

    @property
    def finals_say(self) -> str:
        """What the finals say of the winner against the other finalists; empty without finals."""
        return (
            "" if self.finals is None or self.best is None else conclusion(self.finals, self.best.genome.id)
        )

    def as_dict(self, price_per_hour: float | None = None) -> dict[str, Any]:
        """The best kernel, what was spent, how it stands against the libraries, cost, and the front."""
        assert self.best is not None, "a search without a kernel is an error, not a report"
        known: dict[str, Any] = {
            "best": self.best.as_dict(),
            "spent": self.spent,
            "run": None if self.run is None else self.run.id,
            "comparisons": [asdict(comparison) for comparison in self.against_libraries],
            "ties": list(self.tied),
            "validator": self.validator,
            "cost": cost_as_dict(self.cost, price_per_hour),
        }
        if self.credit is not None:
            known["language_model"] = asdict(self.credit)
        if self.counters is not None:
            known["counters"] = self.counters.as_dict()
        if self.front is not None:
            names = [each.name for each in self.front.objectives]
            known["front"] = {"objectives": names, "rows": self.front.with_genes()}
        return known


class Watcher(Protocol):
    """Is shown what a search does while it runs."""

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """One more evaluation."""

    def say(self, message: str) -> None:
        """What is being done now."""


class NotesOnly:
    """Shows no progress, which several searches would write over one another: notes alone."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Nothing: `evoflash watch` shows it."""

    def say(self, message: str) -> None:
        say(message)


# From a title, where times come from, the limits and what the run had before.
Watch = Callable[[str, Basis, Limits, Sequence[tuple[Proposal, Evaluation]]], AbstractContextManager[Watcher]]


def run_search(
    plan: SearchPlan,
    db: str,
    *,
    limits: Limits,
    fresh: bool,
    argv: Sequence[str],
    watch: Watch = NotesOnly,
    machines: Machines = HERE,
) -> RunResult:
    """Search to one of the limits or Ctrl-C; on a GPU, then re-time the finalists."""
    with open_store(db) as store:
        plan = replace(plan, llm=as_repeated(plan.llm, plan.key, store))
        start = replace(
            transfer.start_of(store, plan),
            ahead=machines.ahead,
            machines=machines.where,
            llm_trials=trials_of(plan.llm, plan.key, store, limits.budget),
        )
        if start.archive:
            say(f"starting from {len(start.archive)} archived kernels of {plan.gpu.name}; --no-archive: not.")
            say_what_was_measured(plan)
        missing = missing_profiler() if plan.is_profiled else ""
        if missing:
            say(f"{missing} The search goes on without counters.")
        current = store.begin(
            plan.key,
            gpu_hash=plan.gpu.hash,
            budget=limits.stored_budget,
            argv=argv,
            environment=environment(),
            start=start,
            fresh=fresh,
        )
        asked = ",".join(each.name for each in plan.objectives)
        if asked != (current.objectives or LATENCY[0].name):
            store.keep_objectives(current, asked)
        finals, over = None, _why_over(plan, store, current, limits)
        if over and _is_final(store, current, energy=plan.measures_energy):
            say(over)
        else:
            with counting(store, current, limits, machines.cpu_elsewhere_s) as meter:
                finals = _search(plan, store, current, limits, watch, meter, machines=machines)
        keep_pairs(store, current, finals)
        if plan.is_profiled and not missing:
            from evoflash.app.profile import profile_finalists  # it brings all that compares kernels with it

            with counting(store, current, limits):
                profile_finalists(store, current, plan.problem, plan.gpu)
        validator = rung_times.describe(e for _, e in store.history(current))
        front = _front(store, plan, current)
        return replace(result_of(store, current, finals, validator), front=front)


def say_what_was_measured(plan: SearchPlan) -> None:
    """The archived time of the kernel that the search starts from, where it is one for this very problem."""
    for genome in plan.archived_seeds:
        known = archived_kernel(genome, str(plan.problem), plan.gpu.name)
        if known is not None and plan.basis is Basis.ESTIMATED:
            say(f"{genome.id} is of this problem: {known.time}; estimates are to be read beside it.")


def _front(store: Store, plan: SearchPlan, current: Run) -> Rankings | None:
    if plan.objectives == LATENCY:
        return None
    only, basis = Only(run=current.id), current.key.basis
    return read_front(store, objectives=plan.objectives, basis=basis, only=only)


def result_of(
    store: Store, current: Run, finals: FinalReport | None = None, validator: str = ""
) -> RunResult:
    """What the run came to, as the store has it."""
    cost = costs(store.database, current.id).get(current.id)
    timed = next(((each.name, each.score_us) for each in store.baselines(current) if each.score_us), None)
    best, spent = store.best_of(current), store.spent_budget(current)
    history = store.history(current)
    tied = ties_of(best, history) if best is not None else ()
    brought, key = credit(store, current, history), current.key
    counters = read_profile(store.database, best.genome.id, key.problem, key.gpu) if best else None
    found = RunResult(best, spent, finals, validator, cost, timed, tied, run=current, credit=brought)
    return replace(found, counters=counters)


def ties_of(best: Evaluation, history: Sequence[tuple[Proposal, Evaluation]]) -> tuple[str, ...]:
    """Which kernels the model does not tell from the best, screened ones too; none of measured times."""
    if not best.is_estimate:
        return ()
    mine = {each.genome: each.score_us for _, each in history if each.is_rankable and not each.duplicate_of}
    screened = {each.genome for _, each in history if each.is_screened}
    unproven = [us for genome, us in mine.items() if us is not None and genome in screened]
    found = ties([us for us in mine.values() if us is not None], best.genome.family, unproven=unproven)
    return found.says if found else ()


def stored_result(plan: SearchPlan, db: str) -> RunResult:
    """What the plan's newest run has in the database; nothing where it was not begun."""
    with open_store(db) as store:
        run = next((run for run in store.runs() if run.key == plan.key), None)
        return RunResult(None, 0) if run is None else result_of(store, run)


def keep_pairs(store: Store, current: Run, finals: FinalReport | None) -> None:
    """Note how the winner compared with what was timed in turns with it, for `evoflash report`."""
    best = store.best_of(current)
    if finals is not None and best is not None:
        store.keep_final_pairs(current, [asdict(pair) for pair in pairs_of(finals, best.genome.id)])


def _why_over(plan: SearchPlan, store: Store, current: Run, limits: Limits) -> str:
    """Why nothing is left to search, in words; empty where something is."""
    spent = store.spent_budget(current)
    if limits.is_spent(spent):
        return f"this run has spent its budget ({limits.of_budget(spent)}): raise --budget or use --fresh."
    if is_near(store.best_of(current), floor_us(plan.problem, plan.gpu), limits.until):
        return f"this run has a kernel at {limits.until:g} of the floor: raise --until or use --fresh."
    return ""


@contextmanager
def counting(
    store: Store, current: Run, limits: Limits, elsewhere_s: Callable[[], float] = float
) -> Iterator[Meter]:
    """What is done inside is charged to the run; Ctrl-C or SIGTERM inside carries a note of what is stored,
    for stopping.progress_note().
    """
    try:
        with meter_run(store.database, current, elsewhere_s) as meter:
            yield meter
    except (KeyboardInterrupt, TerminatedError) as stop:
        stop.add_note(f"{limits.of_budget(store.spent_budget(current))} evaluations are kept")
        raise
    except EvoflashError:  # of the machine or of a setting: a run that came to nothing is none
        if not store.history(current) and not store.baselines(current):
            with suppress(EvoflashError):  # of a database that cannot be written: what is wrong is said
                delete(store.database, current)
        raise


def _is_final(store: Store, current: Run, *, energy: bool = False) -> bool:
    """Whether nothing is left to time again; so it is where nothing is measured, or nothing was correct.

    `energy`: the best kernel's is wanted, too.
    """
    best = store.best_of(current)
    if current.key.basis is not Basis.MEASURED or best is None:
        return True
    has_energy = any(timing.energy_mj is not None for timing in best.timings)
    return was_timed_again(best) and (has_energy or not energy)


def _search(
    plan: SearchPlan,
    store: Store,
    current: Run,
    limits: Limits,
    watch: Watch,
    meter: Meter,
    *,
    machines: Machines,
) -> FinalReport | None:
    history = store.history(current)
    if history:
        say(f"continuing run {current.id} at {limits.of_budget(store.spent_budget(current))}.")
    if current.start.learns_from:
        say("learning from earlier searches on other problems; --no-transfer: not.")
    if current.start.learns_from_shipped:
        say("learning from shipped searches on other problems; --no-transfer: not.")
    floor = floor_us(plan.problem, plan.gpu)
    if limits.until is not None:
        say(f"searching until {floor / limits.until:.2f} us: the physical floor is {floor:.2f} us.")
    title = f"{', '.join(field.family.name for field in plan.fields)} for {plan.gpu.name}"
    past = _of_known_families(evaluation for _, evaluation in history)
    machines = machines.with_ahead_of(current.start)
    edits_source = plan.llm is not None and plan.llm.edits_source
    tasks = (
        kernel_task(plan.problem, plan.gpu, field.family, field.space, edits_source=edits_source)
        for field in plan.fields
    )
    with (
        evaluator(plan, past, machines=machines) as evaluates,
        # Read beside the evaluator's start.
        proposals_from(plan, transfer.earlier(store, current, plan), apart=machines.has_many_gpus) as alone,
        beside(alone, plan.llm, tasks, store, current) as strategy,
        watch(title, plan.basis, limits, history) as progress,
    ):

        def on_evaluation(proposal: Proposal, evaluation: Evaluation) -> None:
            progress.show(proposal, evaluation)
            meter.note_now_and_then()

        with noting_end(store, current, limits, floor):
            search(
                strategy,
                evaluates,
                store,
                current,
                budget=limits.budget,
                time_limit_s=limits.seconds,
                is_enough=lambda best: is_near(best, floor, limits.until),
                on_evaluation=on_evaluation,
            )
        prove_best(evaluates, store, current, said=progress.say)
        return time_finalists(evaluates, store, current, said=progress.say)


def _of_known_families(history: Iterable[Evaluation]) -> list[Evaluation]:
    """Without those of families that this search has not; it is said which."""
    known, unknown, past = set(known_families()), Counter[str](), []
    for evaluation in history:
        if evaluation.genome.family in known:
            past.append(evaluation)
        else:
            unknown[evaluation.genome.family] += 1
    for family, count in unknown.items():
        say(
            f"this run has {count} outcomes of the family {family}, which is in no extension folder that is "
            "set: the search goes on without it. Set EVOFLASH_EXTENSIONS to have it, or begin anew: --fresh."
        )
    return past


@contextmanager
def noting_end(store: Store, current: Run, limits: Limits, floor: float = 0.0) -> Iterator[None]:
    """What is done inside is the run's newest search: its time limit is noted, and at the end what ended it,
    nothing where it is stopped. `floor`: the physical one, which --until goes by.
    """
    begun_s, ends = time.monotonic(), ""
    if limits.seconds is not None:
        ends = (datetime.now(UTC) + timedelta(seconds=limits.seconds)).isoformat(timespec="seconds")
    store.note_limits(current, ended="", ends=ends)
    yield
    ended = "space"  # nothing new was left to propose
    if is_near(store.best_of(current), floor, limits.until):
        ended = "until"
    elif limits.is_spent(store.spent_budget(current)):
        ended = "budget"
    elif limits.seconds is not None and time.monotonic() - begun_s >= limits.seconds:
        ended = "time"
    store.note_limits(current, ended=ended)


def evaluator(
    plan: SearchPlan, history: Sequence[Evaluation], *, proves_all: bool = False, machines: Machines = HERE
) -> EmulatedEvaluator | MeasuredEvaluator:
    """The evaluator of the plan's basis; `proves_all`: nothing is screened out for its time."""
    judge = source_judge(plan.problem, plan.gpu) if plan.llm and plan.llm.edits_source else None
    if plan.basis is Basis.MEASURED:
        return MeasuredEvaluator(
            plan.problem,
            plan.gpu,
            seed=plan.seed,
            history=history,
            cores=machines.cores,
            ahead=machines.ahead,
            devices=machines.devices,
            gpus=machines.gpus,
            proves_all=proves_all,
            energy=plan.measures_energy,
            judge=judge,
        )
    return EmulatedEvaluator(
        plan.problem,
        plan.gpu,
        seed=plan.seed,
        history=history,
        cores=machines.cores,
        ahead=machines.ahead,
        proves_all=proves_all,
        judge=judge,
    )


def dry_run(plan: SearchPlan, *, budget: int) -> Iterator[tuple[Genome, Build, str]]:
    """Render and compile `budget` uniform genomes: each build, and why it fails; stores nothing."""
    rng = np.random.default_rng(plan.seed)
    for at in range(budget):
        genome = plan.fields[at % len(plan.fields)].space.sample(rng)
        for build in compile_only(genome, plan.problem, plan.gpu):
            yield genome, build, "" if build.ok else first_error(build.log)
