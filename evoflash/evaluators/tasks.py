"""What the GPU process is asked of a genome: cubins, launches, what to check and to time. Runs nothing."""

from dataclasses import dataclass

from evoflash.evaluation import Build
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.gpu_process import rungs
from evoflash.gpu_process.rungs import GpuTask, Launcher, launches_on
from evoflash.operation import Workload, registry
from evoflash.problem import Problem
from evoflash.space import Genome


@dataclass(frozen=True, slots=True)
class Asked:
    """What all genomes of a search are asked."""

    problem: Problem
    gpu: GpuSpec
    seed: int
    checks: tuple[Workload, ...]

    def task_of(self, genome: Genome, builds: tuple[Build, ...]) -> GpuTask:
        """All that a search asks of a genome."""
        return rungs.task_of(
            genome.id,
            self.gpu,
            builds,
            self._launcher(genome),
            checks=self.checks,
            timed=self.problem.workloads,
            seed=self.seed,
            is_deterministic=load_family(genome.family).is_deterministic,
        )

    def hidden(self, genome: Genome, *, seed: int) -> rungs.Launches:
        """Launches on shapes that are drawn from the seed."""
        return launches_on(self.hidden_workloads(seed), self._launcher(genome))

    def hidden_workloads(self, seed: int) -> tuple[Workload, ...]:
        """The shapes that are drawn from the seed."""
        operation = registry.load(self.problem.operation)
        return operation.hidden_workloads(self.problem.compile_keys(self.gpu.arch), seed=seed)

    def _launcher(self, genome: Genome) -> Launcher:
        family = load_family(genome.family)
        return lambda workload: family.launches(genome, workload, self.gpu)


def asked(problem: Problem, gpu: GpuSpec, *, seed: int) -> Asked:
    """With the check shapes of the problem's operation."""
    operation = registry.load(problem.operation)
    return Asked(problem, gpu, seed, operation.check_workloads(problem.compile_keys(gpu.arch)))
