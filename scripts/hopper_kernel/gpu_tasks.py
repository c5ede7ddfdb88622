"""The hand-written Hopper kernel in a GPU process: its checks, and its times beside torch's kernels.

Chooses no workloads to time and writes no record: on_gpu.py does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from evoflash.evaluation import Build, Verdict
from evoflash.gpu import launcher
from evoflash.gpu.arena import Original, run_once
from evoflash.gpu.baselines import BaselineAbsentError, baseline
from evoflash.gpu.process import cache
from evoflash.gpu.timing.benchmark import Bench, Contender, KernelContender
from evoflash.gpu.timing.paired import time_interleaved
from evoflash.gpu.timing.protocols import Pace, StoppingRule
from evoflash.isolation import IsolatedPool
from evoflash.operation import Sample
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload, parse_workload
from evoflash.validation.cases import case
from evoflash.validation.validator import judge
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS
from scripts.hopper_kernel.driver import TmaKernel

Record = dict[str, Any]
SEED = 1
TRIALS = ("normal", "rising", "needles")
# Tails in rows and keys, one key block, one row, more queries than keys (rows without a key), many tiles.
LENGTHS = ((200, 330), (64, 64), (1, 77), (300, 130), (129, 1000))
KINDS = (
    "b=2,h=2,s=1,d=64",
    "b=2,h=4,hkv=2,s=1,d=64,causal,dtype=bf16",
    "b=1,h=2,s=1,d=128,dtype=bf16",
    "b=1,h=4,hkv=1,s=1,d=128,causal",
)
BASELINES = ("sdpa_flash", "sdpa_cudnn")
STEADY = StoppingRule(min_samples=5, max_samples=15, rel_error=5e-3, max_s=1.0)
BOOST = StoppingRule(min_samples=3, max_samples=3, rel_error=1.0, max_s=3.0)
HANG_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """A configuration to be held against the reference."""

    name: str
    builds: tuple[tuple[AttentionKey, Build], ...]  # bounded ones first


@dataclass(frozen=True, slots=True)
class Race:
    """A workload on which configurations and baselines are timed in turns."""

    workload: AttentionWorkload
    builds: tuple[tuple[str, Build], ...]


def check(task: Check) -> list[Record]:
    """One record; its reason names the workload, the gate and the place of the first failure."""
    record: Record = {"kind": "check", "configuration": task.name, "passed": True, "reason": "", "runs": 0}
    stream, worst = launcher.new_stream(), 0.0
    for key, made in task.builds:
        for workload in shapes(key):
            verdict = verdict_of(task.name, made, workload, stream)
            record["runs"] += len(TRIALS)
            worst = max(worst, verdict.rel_l2)
            if not verdict.passed:
                return [{**record, "passed": False, "reason": f"{verdict.reason} [{workload}]"}]
    return [{**record, "worst_rel_l2": worst}]


def shapes(key: AttentionKey) -> list[AttentionWorkload]:
    """The check workloads of a key."""
    batch, kv_heads = next(
        (w.batch, w.kv_heads) for w in map(parse_workload, KINDS) if w.compile_key(ARCH) == key
    )
    return [key.workload(batch, kv_heads, *lengths) for lengths in LENGTHS]


def verdict_of(name: str, made: Build, workload: AttentionWorkload, stream: Any) -> Verdict:
    kernel = TmaKernel(made, CONFIGURATIONS[name], workload)
    results = []
    for trial_name in TRIALS:
        trial, expected = case(workload, trial_name, SEED)
        output = run_once(kernel, cache.arena(workload), trial, stream=stream, limit_s=HANG_S)
        results.append((trial, expected, output))
    return judge(workload, results)


def race(task: Race) -> list[Record]:
    """A record for each contender; a baseline that the machine lacks has a reason instead of times."""
    spec = launcher.spec_of(launcher.present_gpu())
    bench = Bench(task.workload, spec=spec, seed=SEED)
    kernels = {name: TmaKernel(made, CONFIGURATIONS[name], task.workload) for name, made in task.builds}
    contenders: list[Contender] = [KernelContender(name, kernel) for name, kernel in kernels.items()]
    records: list[Record] = []
    for name in BASELINES:
        try:
            contenders.append(baseline(name, bench))
        except BaselineAbsentError as absent:
            records.append({"kind": "time", "configuration": name, "passed": False, "reason": str(absent)})
    protocol = bench.protocols[0]
    rule = BOOST if protocol.pace is Pace.BOOST else STEADY
    _, timings = time_interleaved(contenders, bench, protocol, rule=rule, rng=np.random.default_rng(SEED))
    for name, timing in timings.items():
        reason = complaint_at_size(kernels[name], bench) if name in kernels else ""
        records.append(
            {
                "kind": "time",
                "configuration": name,
                "workload": str(task.workload),
                "protocol": timing.protocol,
                "passed": not reason,
                "reason": reason,
                "us": round(timing.median_us, 3),
                "p10_us": round(timing.p10_us, 3),
                "p90_us": round(timing.p90_us, 3),
                "samples": timing.n,
                "tflops": round(task.workload.reported_flops / timing.median_us / 1e6, 1),
                "sm_clock_mhz": timing.sm_clock_mhz,
                "throttle": timing.throttle,
            }
        )
    return records


def complaint_at_size(kernel: TmaKernel, bench: Bench) -> str:
    """Empty when what was timed is right at the first and last rows of the first and last head."""
    w, arena = bench.workload, bench.arenas[0]
    assert isinstance(w, AttentionWorkload), "it is attention that is timed"
    inputs = arena.inputs
    trial = inputs.inputs if isinstance(inputs, Original) else inputs
    if not isinstance(trial, AttentionInputs):
        return "nothing was loaded"
    rows = np.unique([*range(min(w.seq_q, 24)), *range(max(0, w.seq_q - 24), w.seq_q)])
    where = Sample(np.unique([0, w.batch * w.heads - 1]), rows)
    output = run_once(kernel, arena, trial, stream=bench.stream, limit_s=HANG_S)
    return judge(w, [(trial, expect(w, trial, where=where), output)]).reason


def guarded(function: Callable[[Any], list[Record]], task: Any) -> tuple[list[Record], str]:
    """Its records, or why there are none: after an error of CUDA the process is of no more use."""
    try:
        return function(task), ""
    except Exception as error:  # whatever it is, the other configurations are to be tried
        return [], (f"{type(error).__name__}: {error}".splitlines() or ["?"])[0]


class GpuProcess:
    """A process with a CUDA context; replaced when a task has spoilt it."""

    def __init__(self) -> None:
        self._pool = IsolatedPool(1)

    def run(
        self, function: Callable[[Any], list[Record]], task: Any, *, timeout_s: float
    ) -> tuple[list[Record], str]:
        """The task's records and a reason, one of which is empty."""
        ending = self._pool.submit(guarded, function, task, timeout_s=timeout_s).result()
        records, reason = ending.value or ([], ending.reason)
        if reason:
            self.close()
            self._pool = IsolatedPool(1)
        return records, reason

    def close(self) -> None:
        self._pool.close()
