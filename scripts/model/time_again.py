"""Times anew, on the GPU here, the kernels of the record whose family has another text since.

    python -m scripts.model.time_again --family linear_mma --seconds 170 -o times.json
    python -m scripts.model.time_again --merge times.json others.json     # into the record, anywhere

The kernels of a problem take turns, and their outputs are judged at its size. One that cannot be built any
more or is wrong is left out; after one that hangs or crashes the rest is timed again in another process. Then
`python -m scripts.model.error` makes the estimates: a merged group has none. Estimates nothing.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.evaluation import Build
from evoflash.evaluators.prepare import Preparation, prepare
from evoflash.gpu import launcher
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.process import cache
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.outcome import RejectedError
from evoflash.gpu.process.rungs import smoke, task_of
from evoflash.gpu.timing.benchmark import KernelContender, measure, time_interleaved
from evoflash.gpu.timing.protocols import SHORT, Pace, StoppingRule, TimingProtocol
from evoflash.isolation import Ending, IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from scripts.model.error import EARLIER, PLACE, RECORD, genome_of_today
from scripts.records import command, read_record, stored, write_record

_COLD = TimingProtocol("cold", True, Pace.STEADY)
_IN_TURNS = StoppingRule(min_samples=5, max_samples=5, rel_error=1.0, max_s=float("inf"))
_SEED = 31
_LIMIT_S = 60.0  # of a compilation, of a problem

Builds = Mapping[Genome, tuple[Build, ...]]
Group = dict[str, Any]


def times_us(problem: str, built: Builds, spec: GpuSpec) -> tuple[dict[Genome, float], dict[Genome, str]]:
    """In a process with the GPU: medians, and why others have none. After a hang or a crash there are no
    medians at all, and the process is of no use any more.
    """
    (workload,) = parse_problem(problem).workloads
    bench = cache.bench(workload, spec, _SEED)
    found, wrong = dict[Genome, KernelContender](), dict[Genome, str]()
    trouble: tuple[type[BaseException], ...] = (
        launcher.KernelHungError,
        MemoryFaultError,
        *launcher.cuda_errors(),
    )
    for genome, builds in built.items():
        launches = partial(load_family(genome.family).launches, genome, gpu=spec)
        try:
            task = task_of(genome.id, spec, builds, launches, checks=(), timed=(workload,), seed=_SEED)
            smoke(task)
            contender = KernelContender(genome.id, task.kernel(*task.timed[0]))
            measure(contender, bench, _COLD, rule=SHORT)
            verdict = judge_replay(contender, bench, seed=_SEED)
        except RejectedError as error:
            wrong[genome] = str(error)
            continue
        except trouble as error:
            return {}, {**wrong, genome: str(error)}
        if verdict.passed:
            found[genome] = contender
        else:
            wrong[genome] = verdict.reason
    rng = np.random.default_rng(_SEED)
    try:
        _, timings = time_interleaved(list(found.values()), bench, _COLD, rule=_IN_TURNS, rng=rng, prefix="")
    except trouble as error:
        return {}, dict.fromkeys(built, str(error))
    return {genome: timings[genome.id].median_us for genome in found}, wrong


def groups_of(record: Mapping[str, Any], family: str, gpu: str) -> list[Group]:
    """Those that were timed with an earlier text."""
    groups = record["groups"]
    return [each for each in groups if EARLIER in each and (each["family"], each["gpu"]) == (family, gpu)]


def genomes_of(group: Group, spec: GpuSpec) -> list[Genome]:
    """The group's kernels that are kernels of today's family."""
    keys = parse_problem(group["problem"]).compile_keys(spec.arch)
    space = load_family(group["family"]).space(keys, spec)
    found = (genome_of_today(space, values) for values, *_ in group["kernels"])
    return list(dict.fromkeys(each for each in found if each))


def merged(groups: Sequence[Group], timed: Sequence[Group]) -> list[Group]:
    """Groups with the new times of those that have any, and without estimates there."""
    new = {tuple(each[name] for name in PLACE): each["kernels"] for each in timed if each["kernels"]}
    found = []
    for group in groups:
        kernels = new.get(tuple(group[name] for name in PLACE)) if EARLIER in group else None
        kept = {name: value for name, value in group.items() if name != EARLIER}
        found.append({**kept, "kernels": kernels} if kernels else group)
    return found


def time_groups(groups: Sequence[Group], spec: GpuSpec, jobs: int, until_s: float, output: Path) -> None:
    """All is compiled at once, and a problem is timed when its kernels are there; the file grows."""
    rows, gpu = list[Group](), IsolatedPool(1)
    with IsolatedPool(jobs) as compilers:
        under_way = []
        for group in groups:
            problem = parse_problem(group["problem"])
            submit = partial(compilers.submit, prepare, timeout_s=_LIMIT_S)
            under_way.append({x: submit(x, problem, spec, False, _SEED) for x in genomes_of(group, spec)})
        for group, futures in zip(groups, under_way, strict=True):
            if time.monotonic() > until_s:
                break
            built, wrong = _built(futures)
            us = dict[Genome, float]()
            while built and not us:
                ending = gpu.submit(times_us, group["problem"], built, spec, timeout_s=_LIMIT_S).result()
                us, more = ending.value or ({}, dict.fromkeys(built, ending.reason))
                wrong |= more
                built = {genome: builds for genome, builds in built.items() if genome not in more}
                if not us:
                    gpu.close()
                    gpu = IsolatedPool(1)
            kernels = [[genome.as_dict(), round(took, 4), None] for genome, took in us.items()]
            reasons = {genome.id: reason for genome, reason in wrong.items()}
            rows.append({**{name: group[name] for name in PLACE}, "kernels": kernels, "wrong": reasons})
            print(group["problem"], len(us), "timed,", len(wrong), "not", flush=True)
            output.write_text(json.dumps({"command": command(), "gpu": spec.name, "groups": rows}))
    gpu.close()


def _built(futures: Mapping[Genome, "Future[Ending[Preparation]]"]) -> tuple[Builds, dict[Genome, str]]:
    built, wrong = dict[Genome, tuple[Build, ...]](), dict[Genome, str]()
    for genome, future in futures.items():
        ending = future.result()
        if ending.value is None or ending.value.failure:
            wrong[genome] = ending.reason if ending.value is None else str(ending.value.failure)
        else:
            built[genome] = ending.value.builds
    return built, wrong


def main() -> None:
    """Parse; time, or merge."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family")
    parser.add_argument("--seconds", type=float, default=170.0, help="no problem is begun later")
    parser.add_argument("--jobs", type=int, default=14, help="compilers")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--merge", type=Path, nargs="+", default=[])
    given = parser.parse_args()
    record, until_s = read_record(RECORD), time.monotonic() + given.seconds
    if given.merge:
        timed = [group for file in given.merge for group in json.loads(file.read_text())["groups"]]
        write_record(stored(RECORD), {**record, "groups": merged(record["groups"], timed)})
    else:
        spec = launcher.present_spec(None)
        groups = groups_of(record, given.family, spec.name)
        time_groups(groups, spec, given.jobs, until_s, given.output)


if __name__ == "__main__":
    main()
