"""The short way of a genome whose estimate is too slow for it to be worth every check; proves nothing.

Runs in a worker process. Once a genome is compiled for the GPU the emulator takes the two runs that the
performance model counts. What is too slow by its estimate ends there. All else goes the whole way of
prepare.py, as if nobody had looked: also what one of the two runs complains of. Nothing is let off because of
a screen.
"""

from dataclasses import replace

from evoflash.compilers.gxx import KernelBuildError
from evoflash.emulator.preflight import preflight
from evoflash.evaluation import score
from evoflash.evaluators.estimates import estimates
from evoflash.evaluators.prepare import Prepared, Screened, preflighted, prepare
from evoflash.evaluators.rivals import beaten_by
from evoflash.families.family import load_family
from evoflash.families.renderer import render
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem
from evoflash.space import Genome


def screen_or_prepare(
    genome: Genome, problem: Problem, gpu: GpuSpec, seed: int, rivals_us: tuple[float, ...]
) -> Prepared:
    """What prepare() makes of a genome, with the emulator, if its estimate keeps up with those times; else
    how slow it is.
    """
    compiled = prepare(genome, problem, gpu, False, seed)
    if compiled.failure:
        return compiled
    counted = _counted(genome, problem, gpu, compiled, seed=seed)
    if counted is not None:
        found = estimates(genome, counted, problem, gpu)
        rival_us = beaten_by(score([each.total_us for each in found]), rivals_us)
        if rival_us is not None:
            return replace(counted, screened=Screened(found, rival_us))
    return preflighted(genome, problem, gpu, compiled, seed)


def _counted(
    genome: Genome, problem: Problem, gpu: GpuSpec, compiled: Prepared, *, seed: int
) -> Prepared | None:
    """What was compiled, with the counted runs of every key; None where one cannot be, or finds something
    wrong.
    """
    family, counted = load_family(genome.family), compiled
    for key in problem.compile_keys(gpu.arch):
        try:
            found = preflight(render(genome, key, gpu), family, gpu, seed=seed, only_counted=True)
        except KernelBuildError:
            return None
        if found.complaint:
            return None
        verdicts, profiles = (*counted.verdicts, *found.verdicts), (*counted.profiles, found.profile)
        counted = replace(counted, verdicts=verdicts, profiles=profiles)
    return counted
