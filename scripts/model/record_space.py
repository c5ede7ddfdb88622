"""Records a sample of a family's space: builds, launches, model profiles, and short timings on this GPU.

Genomes are uniform over the valid ones, or given. Workers compile and emulate them on all cores while the GPU
process checks one after the other against the reference on a small shape and times it briefly. The file holds
all that the performance model reads, so that report.py can calibrate it from files alone.

    python -m scripts.model.record_space --family flash_mma --problem mission --count 300 --seed 7 \\
        --time-limit 120 -o scripts/model/records/space-h200-flash_mma-mission.json

`--genomes FILE` takes a JSON list of genomes' values instead of a sample; `--dry-run` needs no GPU and times
nothing. At the time limit the file is written with what is known by then.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, as_completed
from concurrent.futures import TimeoutError as Late
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.errors import EvoflashError
from evoflash.evaluation import Rung, Status
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Preparation, PreparationFailure, prepare
from evoflash.gpu import launcher
from evoflash.gpu.launcher import KernelHungError
from evoflash.gpu.process import rungs
from evoflash.gpu.process.rungs import GpuTask, task_of
from evoflash.gpu.timing.benchmark import Bench, KernelContender, sample
from evoflash.gpu.timing.noise_floor import environment
from evoflash.gpu.timing.protocols import Pace, TimingProtocol
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.family import Family, load_family
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.perf_model.estimate import model_version
from evoflash.problem import Problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec, load_gpu
from scripts.command_line import command
from scripts.model.space_file import profile_record, written

PROTOCOL = (
    "hot: CUDA graph replays of up to 20 launches on one input set, 5 samples (2 from 2 ms a launch on); "
    "cold: replays that walk through copies of the inputs that fill the L2 twice, 3 samples, up to 0.2 ms a "
    "launch. One sample of one launch where it takes over 20 ms, or 50 times the fastest so far. In short "
    "bursts, so at boost clock. Times in us per call."
)
GPU_LIMIT_S = 90.0  # of one genome
SLOW_US = 2e4  # one launch is timing enough
FAR_BEHIND = 50.0  # times the fastest so far: one more after the first
SHORT_US = 2e2  # below it, a replay just before each sample hides how long a launch takes to begin
_ONCE = TimingProtocol("hot", False, Pace.SUSTAINED)
_HOT, _COLD = TimingProtocol("hot", False, Pace.STEADY), TimingProtocol("cold", True, Pace.STEADY)
_CHECKED_LENGTHS = (113, 203)  # queries and keys: tails for every tile


@dataclass(frozen=True, slots=True)
class Times:
    """One genome's samples in us per call; `lost`: its process cannot be trusted any more."""

    status: Status
    hot_us: tuple[float, ...] = ()
    cold_us: tuple[float, ...] = ()
    reason: str = ""
    lost: bool = False


@dataclass(slots=True)
class Session:
    """What is recorded, on what, and what has come of it."""

    family: Family
    workload: AttentionWorkload
    gpu: GpuSpec
    seed: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    fastest_us: float | None = None

    @property
    def problem(self) -> Problem:
        return Problem((self.workload,))

    def launches(self, genome: Genome, workload: AttentionWorkload) -> tuple[LaunchConfig, ...]:
        return self.family.launches(genome, workload, self.gpu)

    def task(self, genome: Genome, prepared: Preparation) -> GpuTask:
        """A check on the small shape and a timing on the workload."""
        w, (queries, keys) = self.workload, _CHECKED_LENGTHS
        small = replace(w, batch=1, heads=2 * w.gqa_ratio, kv_heads=2, seq_q=queries, seq_kv=keys)
        launcher = partial(self.launches, genome)
        return task_of(
            genome.id, self.gpu, prepared.builds, launcher, checks=(small,), timed=(w,), seed=self.seed
        )


# ---- in the GPU process


@lru_cache(maxsize=1)
def _bench(workload: AttentionWorkload, spec: GpuSpec, seed: int) -> Bench:
    return Bench(workload, spec=spec, seed=seed)


def check_and_time(task: GpuTask, fastest_us: float | None) -> Times:
    """One genome on the GPU; whatever the kernel does is data."""
    outcome = rungs.check_task(replace(task, timed=()))
    if outcome.status is not Status.CORRECT:
        return Times(outcome.status, reason=outcome.reason, lost=outcome.process_lost)
    try:
        return _timed(task, fastest_us)
    except KernelHungError as hung:
        return Times(Status.TIMEOUT, reason=str(hung), lost=True)
    except launcher.cuda_errors() as error:
        return Times(Status.RUNTIME, reason=str(error).strip().splitlines()[0], lost=True)


def _timed(task: GpuTask, fastest_us: float | None) -> Times:
    ((workload, launches),) = task.timed
    bench = _bench(workload, task.spec, task.seed)
    contender = KernelContender(task.genome_id, task.kernel(workload, launches))
    once = contender.graph(bench, bench.order(_ONCE, launches=1))
    one_us = sample(once, bench, _ONCE, launches=1)
    if one_us < SLOW_US:
        one_us = sample(once, bench, _ONCE, launches=1)  # the first one was also the warm-up
    if one_us >= SLOW_US or (fastest_us is not None and one_us > FAR_BEHIND * fastest_us):
        return Times(Status.CORRECT, (one_us,))
    if one_us >= SHORT_US:
        many, count = max(1, int(2e3 / one_us)), 5 if one_us < 2e3 else 2
        return Times(Status.CORRECT, _samples(contender, bench, _ONCE, launches=many, count=count))
    hot_us = _samples(contender, bench, _HOT, launches=20, count=5)
    cold_us = _samples(contender, bench, _COLD, launches=len(bench.arenas), count=3)
    return Times(Status.CORRECT, hot_us, cold_us)


def _samples(
    contender: KernelContender, bench: Bench, protocol: TimingProtocol, *, launches: int, count: int
) -> tuple[float, ...]:
    replay = contender.graph(bench, bench.order(protocol, launches=launches))
    sample(replay, bench, protocol, launches=launches)
    return tuple(sample(replay, bench, protocol, launches=launches) for _ in range(count))


# ---- in this process


class Gpu:
    """The GPU process; a new one after a kernel that spoilt it."""

    def __init__(self) -> None:
        launcher.present_gpu()  # without a GPU: one line here, not in a process
        self._pool = IsolatedPool(1, initializer=launcher.warm_up)

    def times(self, task: GpuTask, fastest_us: float | None) -> Times:
        ending = self._pool.submit(check_and_time, task, fastest_us, timeout_s=GPU_LIMIT_S).result()
        times = ending.value or Times(ending.status, reason=ending.reason, lost=True)
        if times.lost:
            self.close()
            self._pool = IsolatedPool(1, initializer=launcher.warm_up)
        return times

    def close(self) -> None:
        self._pool.close()


def sampled(space: SearchSpace, *, count: int, seed: int) -> list[Genome]:
    """Distinct genomes, uniform over the valid ones; fewer where the space has no more."""
    rng, found = np.random.default_rng(seed), dict[Genome, None]()
    for _ in range(20 * count):
        if len(found) == count:
            break
        found[space.sample(rng)] = None
    return list(found)


def given(space: SearchSpace, path: Path) -> list[Genome]:
    """The genomes of a JSON list of values."""
    return [space.genome(values) for values in json.loads(path.read_text(encoding="utf-8"))]


def record(session: Session, genomes: list[Genome], gpu: Gpu | None, *, until: float, workers: int) -> None:
    """Prepare all genomes, each timed as soon as it is ready; what is not ready at `until` is left out."""
    with IsolatedPool(workers) as pool:
        common = (session.problem, session.gpu, True, session.seed)
        waiting: dict[Future[Ending[Preparation]], Genome] = {
            pool.submit(prepare, genome, *common, timeout_s=PREPARE_LIMIT_S): genome for genome in genomes
        }
        for future in _completed(waiting, until):
            _add(session, waiting[future], _prepared(future), gpu)


def _prepared(future: Future[Ending[Preparation]]) -> Preparation:
    try:
        ending = future.result()
    except EvoflashError as error:  # a template that does not render for this genome, say
        return Preparation(failure=PreparationFailure(Status.COMPILE, Rung.RENDER, str(error)))
    return ending.value or Preparation(
        failure=PreparationFailure(ending.status, Rung.PREFLIGHT, ending.reason)
    )


def _completed(
    waiting: dict[Future[Ending[Preparation]], Genome], until: float
) -> Iterator[Future[Ending[Preparation]]]:
    try:
        for future in as_completed(waiting, timeout=max(0.0, until - time.monotonic())):
            yield future
            if time.monotonic() > until:
                return
    except Late:
        return


def _add(session: Session, genome: Genome, prepared: Preparation, gpu: Gpu | None) -> None:
    failure = prepared.failure
    if failure:
        times = Times(failure.status, reason=f"{failure.rung}: {failure.reason}")
    elif gpu is None:
        times = Times(Status.CORRECT)
    else:
        times = gpu.times(session.task(genome, prepared), session.fastest_us)
    if times.hot_us:
        session.fastest_us = min(session.fastest_us or np.inf, float(np.median(times.hot_us)))
    session.rows.append(_row(session, genome, prepared, times))


def _row(session: Session, genome: Genome, prepared: Preparation, times: Times) -> dict[str, Any]:
    row: dict[str, Any] = {"id": genome.id, "values": genome.as_dict(), "status": times.status}
    if times.reason:
        row["reason"] = times.reason
    if prepared.builds and prepared.builds[0].ok:
        build = prepared.builds[0]
        row |= {name: getattr(build, name) for name in ("registers", "spill_bytes", "smem_static_bytes")}
        row["code"] = build.text_sha[:12]  # equal: the same machine code
        row["launches"] = [asdict(launch) for launch in session.launches(genome, session.workload)]
    if times.hot_us:
        row["hot_us"], row["cold_us"] = _rounded(times.hot_us), _rounded(times.cold_us)
    if prepared.profiles and not prepared.failure:
        row["profile"] = profile_record(prepared.profiles[0])
    return row


def _rounded(samples: tuple[float, ...]) -> list[float]:
    return [float(f"{sample:.5g}") for sample in samples]


def document(session: Session, *, command: str, asked: int, seconds: float) -> dict[str, Any]:
    """The file's head; the genomes follow in the order of their preparation."""
    timed = sum("hot_us" in row for row in session.rows)
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": session.gpu.name,
        "problem": str(session.workload),
        "family": session.family.name,
        "family_version": session.family.version,
        "seed": session.seed,
        "genomes_asked": asked,
        "genomes_timed": timed,
        "seconds": round(seconds, 1),
        "model_version": model_version(),
        "protocol": PROTOCOL,
        **environment(),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--family", required=True)
    parser.add_argument("--problem", required=True, help="one workload")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--genomes", type=Path, help="a JSON list of genomes' values, instead of a sample")
    parser.add_argument(
        "--time-limit", type=float, default=600.0, help="seconds; then what is known is written"
    )
    parser.add_argument("--dry-run", action="store_true", help="prepare only; no GPU")
    parser.add_argument("--gpu", default="h200", help="for --dry-run; else the one that is present")
    cores = len(os.sched_getaffinity(0))  # one is for the GPU process
    parser.add_argument("--workers", type=int, default=max(1, cores - 1))
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    options, began = _options(), time.monotonic()
    spec = load_gpu(options.gpu) if options.dry_run else launcher.spec_of(launcher.present_gpu())
    session = Session(load_family(options.family), parse_workload(options.problem), spec, options.seed)
    space = session.family.space(session.problem.compile_keys(spec.arch), spec)
    count = options.count
    genomes = (
        given(space, options.genomes) if options.genomes else sampled(space, count=count, seed=options.seed)
    )
    gpu = None if options.dry_run else Gpu()
    try:
        record(session, genomes, gpu, until=began + options.time_limit, workers=options.workers)
    finally:
        if gpu is not None:
            gpu.close()
        head = document(session, command=command(), asked=len(genomes), seconds=time.monotonic() - began)
        options.output.write_text(written(head, session.rows), encoding="utf-8")
    print(f"{head['genomes_timed']} of {len(genomes)} genomes timed in {head['seconds']} s: {options.output}")


if __name__ == "__main__":
    try:
        main()
    except EvoflashError as error:
        sys.exit(str(error))
