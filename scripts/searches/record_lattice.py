"""Records a lattice on the GPU that is here: every valid genome compiled, looked at and timed; all is kept.

    python -m scripts.searches.record_lattice scripts/searches/lattices/short.toml -o short.json.gz

writes a recorded space (evoflash/replay/kernel_tuner.py) for `evoflash replay` and `benchmark-search`. The
order is random and fixed, so that a recording that was cut off is a random sample of the lattice. The file is
written every half minute; the same command goes on where it ended. Compilation, and pre-flight of the first
genome of each structural core, run in `--workers` processes, the GPU's part in one that may crash
(brief_timing.py). It searches nothing.
"""

import argparse
import sys
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from evoflash import operation as registry
from evoflash.evaluation import Basis, Rung, Status
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation, PreparationFailure, prepare
from evoflash.gpu.launcher import present_spec
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.process import Jobs
from evoflash.gpu.process.rungs import GpuTask, task_of
from evoflash.gpu.process.worker import GpuWorker
from evoflash.gpu.timing.noise_floor import environment
from evoflash.isolation import Ending, IsolatedPool
from evoflash.operation import Workload
from evoflash.replay.kernel_tuner import read_recording, write_recording
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.space import Genome
from scripts.command_line import command
from scripts.searches.brief_timing import PROOF, looked_at, prepare_briefly, timed_briefly
from scripts.searches.lattice import Lattice, genomes, params_of, read_lattice

SEED = 0  # of the inputs and of the order
AHEAD = 6  # genomes in preparation for each worker
QUEUED = 3  # tasks before the GPU process
WRITE_EVERY_S = 30.0
JOBS = Jobs(precompute_references=prepare_briefly, check=looked_at, time_correct=timed_briefly)

Found = dict[Genome, RecordedOutcome]


@dataclass(frozen=True, slots=True)
class InPreparation:
    """A genome that a worker compiles."""

    genome: Genome
    future: "Future[Ending[Preparation]]"


@dataclass(frozen=True, slots=True)
class OnGpu:
    """A genome whose task waits for the GPU process, or is there."""

    genome: Genome
    compile_s: float
    future: "Future[GpuOutcome]"


def prepared(
    lattice: Lattice, wanted: Sequence[Genome], *, workers: int, emulate: bool
) -> Iterator[tuple[Genome, Preparation]]:
    """Each genome with its builds, in their order; the first of each structural core is emulated as well."""
    cores: set[object] = set()
    waiting: deque[InPreparation] = deque()
    with IsolatedPool(workers) as pool:
        for genome in wanted:
            core = lattice.family.core(genome)
            looks = emulate and core not in cores
            cores.add(core)
            arguments = (genome, lattice.problem, lattice.gpu, looks, SEED)
            waiting.append(InPreparation(genome, pool.submit(prepare, *arguments, timeout_s=PREPARE_LIMIT_S)))
            if len(waiting) >= AHEAD * workers:
                yield _ended(waiting.popleft())
        while waiting:
            yield _ended(waiting.popleft())


def _ended(each: InPreparation) -> tuple[Genome, Preparation]:
    ending = each.future.result()
    failed = Preparation(failure=PreparationFailure(ending.status, Rung.PREFLIGHT, ending.reason))
    return each.genome, ending.value or failed


def recorded(
    lattice: Lattice, wanted: Sequence[Genome], *, workers: int, emulate: bool, jobs: Jobs
) -> Generator[tuple[Genome, RecordedOutcome], None, None]:
    """The outcome of each genome, in their order."""
    queued: deque[OnGpu | tuple[Genome, RecordedOutcome]] = deque()
    with GpuWorker(checks=smoke_of(lattice), timed=lattice.problem.workloads, seed=SEED, jobs=jobs) as worker:
        for genome, ready in prepared(lattice, wanted, workers=workers, emulate=emulate):
            if ready.failure is None:
                future = worker.submit(task(lattice, genome, ready))
                queued.append(OnGpu(genome, _compile_s(ready), future))
            else:
                failure = ready.failure
                kept = RecordedOutcome(
                    failure.status, failure.rung, failure.reason, compile_s=_compile_s(ready)
                )
                queued.append((genome, kept))
            if len(queued) > QUEUED:
                yield _outcome(queued.popleft())
        while queued:
            yield _outcome(queued.popleft())


def smoke_of(lattice: Lattice) -> tuple[Workload, ...]:
    """The workload of the smoke test: the smallest check shape."""
    keys = lattice.problem.compile_keys(lattice.gpu.arch)
    return registry.load(lattice.problem.operation).check_workloads(keys)[:1]


def task(lattice: Lattice, genome: Genome, ready: Preparation) -> GpuTask:
    """What the GPU process needs of a genome."""
    return task_of(
        genome.id,
        lattice.gpu,
        ready.builds,
        lambda workload: lattice.family.launches(genome, workload, lattice.gpu),
        checks=smoke_of(lattice),
        timed=lattice.problem.workloads,
        seed=SEED,
        is_deterministic=lattice.family.is_deterministic,
    )


def _compile_s(ready: Preparation) -> float:
    return round(sum(build.compile_s for build in ready.builds), 3)


def _outcome(each: OnGpu | tuple[Genome, RecordedOutcome]) -> tuple[Genome, RecordedOutcome]:
    if isinstance(each, tuple):
        return each
    found = each.future.result()
    samples = found.environment.get("samples_us", "")
    score_us = found.score_us if found.status is Status.CORRECT else None
    return each.genome, RecordedOutcome(
        found.status,
        found.rung,
        found.reason,
        None if score_us is None else round(score_us, 4),
        tuple(map(float, samples.split())),
        compile_s=each.compile_s,
    )


def written(path: Path, lattice: Lattice, found: Found, notes: Mapping[str, str]) -> None:
    """Keep what was found so far; a reader never sees half a file."""
    space = recorded_space(
        lattice.family.name, params_of(lattice, found), found, version=lattice.family.version
    )
    first = lattice.problem.workloads[0]
    recording = Recording(space, str(lattice.problem), lattice.gpu.name, Basis.MEASURED, first.extents, notes)
    beside = path.with_name(f"new-{path.name}")
    write_recording(beside, recording)
    beside.replace(path)


def earlier(path: Path) -> tuple[Found, dict[str, str]]:
    """The outcomes and notes that an earlier call has written; empty where there is none."""
    if not path.exists():
        return {}, {}
    recording = read_recording(path)
    return dict(recording.space.outcomes), dict(recording.notes)


def record(given: argparse.Namespace, lattice: Lattice, jobs: Jobs = JOBS) -> Found:
    """Record until all is there or the time is over; what an earlier call has kept is not repeated."""
    found, notes = earlier(given.output)
    notes = {"proof": PROOF, "lattice": lattice.name} | notes | _now(notes)
    wanted = [genome for genome in genomes(lattice, seed=SEED)[: given.limit] if genome not in found]
    print(f"{lattice.name}: {len(found)} are there, {len(wanted)} to go", flush=True)
    begun = wrote = time.monotonic()
    outcomes = recorded(lattice, wanted, workers=given.workers, emulate=not given.no_preflight, jobs=jobs)
    with closing(outcomes):
        for genome, outcome in outcomes:
            found[genome] = outcome
            now = time.monotonic()
            if now - wrote > WRITE_EVERY_S:
                wrote = now
                written(given.output, lattice, found, notes)
                said(lattice, found, now - begun)
            if now - begun > given.seconds:
                break
    if found:
        written(given.output, lattice, found, notes)
        said(lattice, found, time.monotonic() - begun)
    return found


def _now(notes: Mapping[str, str]) -> dict[str, str]:
    """What is noted of this call, beside what earlier calls noted."""
    commands = [line for line in (notes.get("command"), command()) if line]
    return {"command": "; ".join(dict.fromkeys(commands)), "date": date.today().isoformat(), **environment()}


def said(lattice: Lattice, found: Found, seconds: float) -> None:
    """A line on how far it is."""
    counts = Counter(str(outcome.status) for outcome in found.values())
    times_us = [outcome.score_us for outcome in found.values() if outcome.score_us is not None]
    best = f"best {min(times_us):.2f} us, " if times_us else ""
    words = ", ".join(f"{n} {word}" for word, n in counts.most_common())
    print(f"{lattice.name}: {len(found)} recorded ({words}), {best}{seconds:.0f} s", flush=True)


def main() -> int:
    """Record the lattice that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lattice", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the recorded space, *.json.gz")
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--workers", type=int, default=14, help="processes that compile and emulate")
    parser.add_argument("--limit", type=int, default=None, help="genomes in all, of the lattice's order")
    parser.add_argument("--no-preflight", action="store_true", help="emulate nothing before the GPU sees it")
    given = parser.parse_args()
    lattice = read_lattice(given.lattice)
    record(given, replace(lattice, gpu=present_spec(lattice.gpu.name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
