"""Mutants of the hand-written Hopper kernel: its configurations as cores, and what becomes of one mutant.

The kernel is no family: its text holds the branches of all configurations, so a mutant counts in one only
where g++ makes other machine code of it. mutation_testing.py runs all of them.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from evoflash.evaluation import Candidate
from evoflash.kernels import gxx
from evoflash.operation import Delivery, Loop, Schedule
from evoflash.operations.attention.preflight_runs import preflight_runs
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS, GROUP_ROWS, Configuration
from scripts.hopper_kernel.on_emulator import run_hopper
from scripts.mutation_testing.examine import SEEDS, Outcome
from scripts.mutation_testing.grid import Core, Task
from scripts.mutation_testing.mutants import mutants

CPU_LIMIT_S = 5.0  # of one launch; the right kernel takes 0.1
# Configurations by name, their keys, and whether predicates are mutated there: synchronisation is everywhere.
CORES = (
    ("plain", "b=1,h=1,s=1,d=64", False),
    ("alone", "b=1,h=2,hkv=1,s=1,d=128,causal,dtype=bf16", True),
    ("one_stage", "b=1,h=1,s=1,d=64,causal", False),
    ("uneven_ring", "b=1,h=1,s=1,d=64", False),
    ("overlap", "b=1,h=2,hkv=1,s=1,d=64,causal,dtype=bf16", True),
    ("ping_pong", "b=1,h=1,s=1,d=64", True),
    ("turns_only", "b=1,h=1,s=1,d=64,causal", False),
    ("shared_p_overlap", "b=1,h=1,s=1,d=64,causal", False),
    ("multicast", "b=1,h=1,s=1,d=64,causal", True),
    ("multicast_overlap", "b=1,h=1,s=1,d=64", False),
)
# An arrival more or less in each round of a ring adds up: after as many rounds as a warpgroup has warps, a
# slot is free while a whole warpgroup still reads it.
ROUNDS = 6
_REPORT = re.compile(r"([\w-]+) at line (\d+): ")


@dataclass(frozen=True, slots=True)
class Run:
    """One emulation of those that a mutant goes through."""

    workload: AttentionWorkload
    trial: str
    delivery: Delivery
    schedule: Schedule
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HopperCore(Core):
    """A configuration under one compile key; its genome's values are the configuration's."""

    configuration: str  # its name in cases.CONFIGURATIONS
    mutates_predicates: bool

    @property
    def genes(self) -> Configuration:
        """What the name stands for."""
        return CONFIGURATIONS[self.configuration]

    def render(self) -> Candidate:
        """The text as it is, with the lines of hopper.cu."""
        return self.genes.candidate(self.key)

    def names(self) -> dict[str, Any]:
        """What conditions of the reviewed list can speak of."""
        key = {"head_dim": self.key.head_dim, "dtype": self.key.dtype, "causal": self.key.causal}
        return {**self.genome.as_dict(), **key, "gqa_ratio": self.key.gqa_ratio}

    @property
    def command(self) -> str:
        """Which kernel it is."""
        return f"hopper.cu as {self.configuration} for {self.key.workload(1, 1, 256, 256)}"

    def plan(self) -> tuple[Run, ...]:
        """The pre-flight's shapes, trials, deliveries and schedules, on dense tensors; and two more.

        Often: rings go round often; a causal warp's first row sees all keys of whole tiles but the last one,
        which outweighs the rest. Single: a key less than one tile, and scores that the zero there outweighs.
        """
        stages, rows = max(self.genes.k_stages, self.genes.v_stages), GROUP_ROWS * self.genes.consumers
        loop = Loop(rows * self.genes.cluster, self.genes.tile_keys, stages, 1)
        often = self.key.workload(1, self.key.gqa_ratio, rows + 2, ROUNDS * stages * self.genes.tile_keys)
        single = self.key.workload(1, self.key.gqa_ratio, 1, self.genes.tile_keys - 1)
        planned = preflight_runs(self.key, loop, whole_groups=True)
        return (
            *(
                Run(
                    cast(AttentionWorkload, each.workload),
                    each.inputs,
                    each.delivery,
                    each.schedule,
                    each.without,
                )
                for each in planned
            ),
            Run(often, "rising", "random", "random"),
            Run(single, "saturated", "lazy", "fifo"),
        )

    def complaint(self, text: str, *, seed: int) -> str:
        """The first of what the runs of a text show, in one line; empty where all is well."""
        for at, run in enumerate(self.plan()):
            outcome = run_hopper(
                text,
                self.genes,
                run.workload,
                trial=run.trial,
                delivery=run.delivery,
                schedule=run.schedule,
                seed=seed + at,
                without=run.without,
                cpu_limit_s=CPU_LIMIT_S,
            )
            if reports := outcome.emulation.reports:
                message = " ".join(reports[0].message.split())[:300]
                return f"{reports[0].kind} at line {reports[0].line}: {message} [{run.workload}]"
            if outcome.verdict.reason:
                return f"{outcome.verdict.reason} [{run.workload}]"
        return ""


def cores(names: Iterable[str]) -> list[HopperCore]:
    """Those of CORES whose configurations are named."""
    return [_core(name, kind, both) for name, kind, both in CORES if name in names]


def _core(name: str, kind: str, mutates_predicates: bool) -> HopperCore:
    key = parse_workload(kind).compile_key(ARCH)
    genome = CONFIGURATIONS[name].candidate(key).genome
    return HopperCore("hopper", genome, key, "h200", name, mutates_predicates)


def tasks(wanted: Iterable[HopperCore]) -> list[Task]:
    """Each kernel as it is, then its mutants."""
    work = []
    for core in wanted:
        found = [m for m in mutants(core.render().source) if m.group == "sync" or core.mutates_predicates]
        work += [Task(core, mutant) for mutant in (None, *found)]
    return work


# ---- one mutant


def examine(task: Task) -> Outcome:
    """Emulate a mutant, if it is one here, under one seed after the other until one tells; in a worker."""
    core, right = task.core, task.core.render().source
    assert isinstance(core, HopperCore)
    text = task.mutant.apply(right) if task.mutant else right
    try:
        if task.mutant and machine_code(text) == machine_code(right):
            return Outcome(task, "elsewhere")
    except gxx.KernelBuildError as error:
        return Outcome(task, "refused", reason=str(error))
    for seed in SEEDS:
        if complaint := core.complaint(text, seed=seed):
            return _told(task, complaint, seed)
    return Outcome(task, "survived")


def _told(task: Task, complaint: str, seed: int) -> Outcome:
    report = _REPORT.match(complaint)
    if report is None:
        return Outcome(task, "wrong", reason=complaint, seed=seed)
    return Outcome(task, "reported", report[1], int(report[2]), complaint, seed)


@cache
def machine_code(text: str) -> bytes:
    """What g++ makes of a text: code and constants, without symbols and lines."""
    library = gxx.build(text, name="hopper")
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "code"
        command = ["objcopy", "-O", "binary", "-j", ".text", "-j", ".rodata", str(library), str(code)]
        subprocess.run(command, capture_output=True, check=True)
        return code.read_bytes()
