"""The short way of a genome whose estimate is too slow for it to be worth every check; proves nothing.

Runs in a worker process. Once a genome is compiled for the GPU the emulator takes the two runs that the
performance model counts. What is too slow by its estimate ends there. All else goes the whole way of
prepare.py, as if nobody had looked: also what one of the two runs complains of. Nothing is let off because of
a screen.
"""

from dataclasses import dataclass, replace

from evoflash.compilers.gxx import KernelBuildError
from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Verdict, score
from evoflash.evaluators.estimates import estimates
from evoflash.evaluators.prepare import Prepared, Screened, preflighted, prepare
from evoflash.evaluators.rivals import beaten_by
from evoflash.families.family import load_family
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import Estimate, Profile
from evoflash.problem import Problem
from evoflash.space import Genome


@dataclass(frozen=True, slots=True)
class _Look:
    """What the emulator said in its counted runs, in the order of the compile keys."""

    verdicts: tuple[Verdict, ...] = ()
    profiles: tuple[Profile, ...] = ()


def screen_or_prepare(
    genome: Genome, problem: Problem, gpu: GpuSpec, seed: int, rivals_us: tuple[float, ...]
) -> Prepared:
    """What prepare() makes of a genome, with the emulator, if its estimate keeps up with those times; else
    how slow it is.
    """
    compiled = prepare(genome, problem, gpu, False, seed)
    if compiled.failure:
        return compiled
    look = _look(genome, problem, gpu, seed=seed)
    if look is not None:
        found = estimates(genome, replace(compiled, profiles=look.profiles), problem, gpu)
        if slow := _too_slow(compiled, look, found, rivals_us):
            return slow
    return preflighted(genome, problem, gpu, compiled, seed)


def _look(genome: Genome, problem: Problem, gpu: GpuSpec, *, seed: int) -> _Look | None:
    """The counted runs of every compile key; None where one cannot be, or finds something wrong."""
    family, look = load_family(genome.family), _Look()
    for key in problem.compile_keys(gpu.arch):
        if family.space((key,), gpu).violations(genome):
            return None
        try:
            found = preflight(render(genome, key, gpu), family, gpu, seed=seed, only_counted=True)
        except KernelBuildError:
            return None
        if found.complaint:
            return None
        look = _Look((*look.verdicts, *found.verdicts), (*look.profiles, found.profile))
    return look


def _too_slow(
    compiled: Prepared, look: _Look, found: tuple[Estimate, ...], rivals_us: tuple[float, ...]
) -> Prepared | None:
    rival_us = beaten_by(score([each.total_us for each in found]), rivals_us)
    if rival_us is None:
        return None
    screened = Screened(found, rival_us)
    return replace(compiled, verdicts=look.verdicts, profiles=look.profiles, screened=screened)
