"""The request for an export, which is a genome for a problem and GPUs with what is known of it.

Known is what the database says of the genome, or the shipped archive. Renders and writes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evoflash.champions import Champion
from evoflash.champions.evidence import known_times
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import reproducing_command, valid_genome
from evoflash.problem import Problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, known_gpus, load_gpu
from evoflash.store import run_edits
from evoflash.store.database import is_there
from evoflash.store.store import open_store
from evoflash.workload import CompileKey


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A kernel to export. `evaluation` is what the database knows of it, None where it knows nothing."""

    genome: Genome
    problem: Problem
    gpu: GpuSpec
    evaluation: Evaluation | None = None
    others: tuple[GpuSpec, ...] = ()  # of other architectures that it is compiled for as well
    archived: Champion | None = None  # where it is the shipped archive's, measured on another machine
    db: str = ""  # the database that the evaluation is in
    prefix: str | None = None  # of the C symbols of kernel.cu
    is_other: bool = False  # it was evaluated, and its code was another then
    run: str | None = None  # number or name of the run whose evaluation of it is meant; None: any

    @property
    def gpus(self) -> tuple[GpuSpec, ...]:
        """One GPU for each architecture, the one of the problem first."""
        return (self.gpu, *self.others)

    @property
    def name(self) -> str:
        return f"{self.genome.family}_{self.genome.id}"

    def command(self, kind: str, path: str) -> str:
        """The command line that writes the same file again."""
        others = "".join(f",{gpu.arch}" for gpu in self.others)
        archs = f" --arch {self.gpu.arch}{others}" if others else ""
        return f"{reproducing_command(self.genome, self.problem, self.gpu)}{archs} --kind {kind} -o {path}"

    @property
    def compile_key(self) -> CompileKey:
        """What it is compiled for; UsageError for a problem whose workloads need several kernels."""
        keys = self.problem.compile_keys(self.gpu.arch)
        if len(keys) > 1:
            raise UsageError(
                f"the workloads of '{self.problem}' need {len(keys)} different kernels: export them one by "
                f"one; `evoflash show {self.genome.id[:8]} --command` prints the commands."
            )
        return keys[0]


def gpus_of(archs: Sequence[str], genome: Genome, problem: Problem, gpu: GpuSpec) -> tuple[GpuSpec, ...]:
    """A known GPU for each further architecture, the alphabetically first one of it.

    UsageError for an architecture that no known GPU has, or where the genome is not valid.
    """
    found = {}
    for arch in archs:
        if arch == gpu.arch:
            continue
        specs = [spec for spec in map(load_gpu, known_gpus()) if spec.arch == arch]
        if not specs:
            known = sorted({load_gpu(name).arch for name in known_gpus()})
            raise UsageError(f"--arch {arch}: no known GPU has it: use {', '.join(known)}.")
        family = load_family(genome.family)
        if not family.supports(specs[0]):
            raise UsageError(
                f"--arch {arch}: {family.name} has kernels for {', '.join(family.arch)} alone: leave {arch} "
                "away."
            )
        if valid_genome(genome.family, genome.as_dict(), problem, specs[0]) != genome:
            raise UsageError(f"--arch {arch}: the genome would be another one there: export it by itself.")
        found[arch] = specs[0]
    return tuple(found.values())


def with_evaluation(exported: ExportRequest, db: str) -> ExportRequest:
    """The same with its evaluation, measured before estimated, and its entry in the archive."""
    found: list[Evaluation] = []
    if is_there(db):
        with open_store(db, read_only=True) as store:
            within = run_edits.find(store.database, exported.run) if exported.run else None
            found = store.find(exported.genome.id, within)
    known = known_times(exported.genome, exported.problem, exported.gpu, found)
    best = known.measured or known.estimated
    if best is None and exported.genome.edits:  # what was checked and not timed
        what = (str(exported.problem), exported.gpu.name)
        best = next((each for each in found if each.is_correct and (each.problem, each.gpu) == what), None)
    return replace(exported, evaluation=best, archived=known.archived, db=db)
