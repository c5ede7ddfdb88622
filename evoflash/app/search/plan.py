"""Turns the strings of a command line into a checked plan of a search. Starts and stores nothing."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from evoflash import champions
from evoflash.app.objectives import LATENCY, OBJECTIVES, Objective, objectives_of
from evoflash.app.search.language_model import LanguageModel
from evoflash.champions.past_searches import near
from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.evaluation import ALL_SEEDS, Basis, RunKey
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.timing.benchmark import energy_counter_mj
from evoflash.kernels.family import Family, families_for, load_family
from evoflash.notices import say
from evoflash.perf_model import proportions_on
from evoflash.problem import Problem, check_fits, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec, load_gpu
from evoflash.strategies import LEARNS_EARLIER, check_strategy, strategy_parts, takes_seeds

log = logging.getLogger(__name__)
EVALUATORS = ("gpu", "emulated")
# Finds a GPU to measure on, given the one that is wanted, if any; None where there is none.
Present = Callable[[GpuSpec | None], GpuSpec | None]
ENERGY = OBJECTIVES["energy"]
SHIPPED_SEARCHES = 40  # that a run learns from, the nearest


@dataclass(frozen=True, slots=True)
class SearchField:
    """Where a search looks: a family, on a problem and a GPU."""

    family: Family
    space: SearchSpace
    seeds: tuple[Genome, ...]
    archived: tuple[Genome, ...] = ()  # those of the seeds that come from the shipped archive


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Everything that makes a search, before anything has run."""

    problem: Problem
    gpu: GpuSpec
    fields: tuple[SearchField, ...]
    strategy: str
    seed: int
    basis: Basis
    is_restricted: bool  # to one family, because the person named it
    transfer: bool = True  # may learn from searches for other problems
    objectives: tuple[Objective, ...] = LATENCY  # of the front that is shown; what is searched for is latency
    shipped: tuple[str, ...] = ()  # the problems of shipped searches that it learns from, the nearest first
    most_seeds: int | None = None  # of a family's hand-written ones; None: all
    llm: LanguageModel | None = None  # beside the strategy
    is_profiled: bool = False  # the finalists' hardware counters are read

    @property
    def key(self) -> RunKey:
        """A search that is restricted to a family, starts from the archive or from fewer seeds, or may not
        learn from other searches is a run of its own.
        """
        return RunKey(
            str(self.problem),
            self.gpu.name,
            self.basis,
            seed=self.seed,
            **strategy_parts(self.strategy),
            from_archive=bool(self.archived_seeds),
            without_transfer=self.strategy in LEARNS_EARLIER and not self.transfer,
            most_seeds=ALL_SEEDS if self.most_seeds is None else self.most_seeds,
            family=self.fields[0].family.name if self.is_restricted else "",
            llm=self.llm.name if self.llm else "",
        )

    @property
    def archived_seeds(self) -> tuple[Genome, ...]:
        """The kernels of the shipped archive that the search starts from."""
        return tuple(genome for field in self.fields for genome in field.archived)

    @property
    def measures_energy(self) -> bool:
        """Whether the finals measure what a call takes in energy."""
        return ENERGY in self.objectives


def plan(
    *,
    gpu: str | None,
    problem: str,
    strategy: str,
    seed: int,
    family: str | None,
    evaluator: str | None,
    archive: bool = False,
    transfer: bool = True,
    seeds: int | None = None,
    present: "Present | None" = None,
    objective: str | None = None,
    profile: bool = False,
    is_timed: bool = True,
    llm: LanguageModel | None = None,
) -> SearchPlan:
    """Strings -> a checked Plan; UsageError or DeviceError say what does not fit.

    `archive`: start from what the shipped archive has near the problem. It is off where strategies are
    compared. `transfer`: learn from searches for other problems, the store's and shipped ones. `seeds`: so
    many of each family's hand-written kernels at most, the one meant for such a shape first; None: all.
    `objective`: what the front that is shown at the end is of, as pareto.objectives_of reads it. `present`
    looks for a GPU elsewhere than in this machine. Where nothing `is_timed`, nothing is said of how.
    """
    check_strategy(strategy)
    what, objectives = parse_problem(problem), objectives_of(objective)
    spec, basis = where(gpu, evaluator, present, is_timed=is_timed)
    if ENERGY in objectives:
        _check_energy(basis)
    if profile and basis is not Basis.MEASURED:
        raise DeviceError(
            "counters are read on the GPU itself: run this where it is, or leave --profile out."
        )
    check_fits(what, spec)
    if seeds is not None and not takes_seeds(strategy):
        raise UsageError(f"{strategy} starts from no seeds: leave --seeds out.")
    starts = archive and takes_seeds(strategy)
    tried = (
        _field(member, what, spec, archive=starts, most_seeds=seeds)
        for member in _families(family, spec, what)
    )
    fields = tuple(field for field in tried if field)
    if not fields:
        asked = family or "any family"
        raise UsageError(f"{asked} has no kernel for '{what}' on {spec.name}: see `evoflash families`.")
    return SearchPlan(
        what,
        spec,
        fields,
        strategy,
        seed,
        basis,
        is_restricted=family is not None,
        transfer=transfer,
        objectives=objectives,
        is_profiled=profile,
        shipped=_shipped_problems(what, spec, basis) if transfer and strategy in LEARNS_EARLIER else (),
        most_seeds=seeds,
        llm=llm,
    )


def _shipped_problems(problem: Problem, gpu: GpuSpec, basis: Basis) -> tuple[str, ...]:
    """Problems whose outcomes ship with evoflash. They were measured, and teach no model's estimates."""
    if basis is not Basis.MEASURED:
        return ()
    return near(problem, gpu.name, SHIPPED_SEARCHES)


def _check_energy(basis: Basis) -> None:
    """DeviceError where nothing can measure it."""
    if basis is not Basis.MEASURED:
        raise DeviceError("energy is measured, never estimated: run this where the GPU is, or leave it out.")
    if energy_counter_mj(present_gpu().pci_bus_id) is None:
        raise DeviceError("this GPU does not tell its energy (NVML): leave energy out of --objective.")


def _field(
    family: Family, problem: Problem, gpu: GpuSpec, *, archive: bool, most_seeds: int | None
) -> SearchField | None:
    """None where the family has no valid genome for the problem."""
    space = space_of(family, problem, gpu)
    archived = champions.starts(problem, space, gpu.name) if archive else ()
    seeds = tuple(dict.fromkeys((*archived, *family.seeds_for(problem, space, gpu)[:most_seeds])))
    if not seeds:
        try:
            space.sample(np.random.default_rng(0))
        except UsageError:
            return None
    return SearchField(family, space, seeds, archived)


def space_of(family: Family, problem: Problem, gpu: GpuSpec) -> SearchSpace:
    """The family's genomes for the problem, with what a strategy may learn from before it tries them."""
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    return replace(space, proportions=proportions_on(problem, family, gpu))


def where(
    gpu: str | None, evaluator: str | None, find: Present | None = None, *, is_timed: bool = True
) -> tuple[GpuSpec, Basis]:
    """The GPU to search for, and whether it is here, or where `find` looks, to measure on."""
    if evaluator not in (None, *EVALUATORS):
        raise UsageError(f"no evaluator is called '{evaluator}': use {' or '.join(EVALUATORS)}.")
    wanted = load_gpu(gpu) if gpu else None
    present = None if evaluator == "emulated" and wanted else (find or _present)(wanted)
    is_here = present is not None and (wanted is None or present.name == wanted.name)
    spec = present if is_here else wanted
    if spec is None and evaluator == "gpu":
        raise DeviceError(
            "measuring needs a GPU that evoflash knows, and none is present: run this where one is; "
            "`evoflash search --gpu h200` needs none and estimates times."
        )
    if spec is None:
        raise UsageError("no known GPU is present: say which one the kernel is for, for example --gpu l4.")
    if evaluator == "gpu" and not is_here:
        here = present.name if present else "no known GPU"
        raise DeviceError(
            f"measuring for {spec.name} needs one, but {here} is present: run this where it is; "
            f"`evoflash search --gpu {spec.name} --evaluator emulated` estimates times without it."
        )
    if is_here and evaluator != "emulated":
        return spec, Basis.MEASURED
    if evaluator is None and is_timed:
        say(
            f"no {spec.name} here: correctness by the CPU emulator, times ESTIMATED by a model, not measured."
        )
    return spec, Basis.ESTIMATED


def _present(_: GpuSpec | None) -> GpuSpec | None:
    """The known GPU of this machine, with the driver's attributes in place of the file's, or None."""
    try:
        device = present_gpu()
        spec = spec_of(device)
    except EvoflashError as error:
        log.info("%s", error)
        return None
    for line in device.differences(spec):
        say(f"{spec.name}: {line}; the driver's value is used.")
    return replace(spec, **dict(device.attributes))  # type: ignore[arg-type]  # they are all numbers


def _families(name: str | None, gpu: GpuSpec, problem: Problem) -> tuple[Family, ...]:
    if name is not None:
        family = load_family(name)
        if not family.supports(gpu):
            raise UsageError(
                f"{name} needs {', '.join(family.arch)}, {gpu.name} is {gpu.arch}: choose another family "
                "or GPU."
            )
        family.check_computes(problem)
        return (family,)
    known = families_for(gpu, problem.operation)
    return tuple(family for family in known if family.suits(problem, gpu))
