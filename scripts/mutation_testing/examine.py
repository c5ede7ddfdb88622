"""What becomes of one mutant: emulated under one seed after the other until one tells, then at size.

Finds no mutants and counts none.
"""

import re
from dataclasses import dataclass, replace

from evoflash.emulator.preflight import Preflight, emulate, preflight
from evoflash.evaluation import Candidate
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.gxx import KernelBuildError
from evoflash.operation import Loop
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.specs import load_gpu
from scripts.mutation_testing.grid import Core, Task

SEEDS = (1, 2, 3)  # of a pre-flight; all but the first are for what the first lets through
_HEADS = 127  # or packed groups: more than a family puts into one section, one short of a multiple of it
_BATCH = 5  # divides no GPU's number of SMs, so that a grid has blocks too many
_PIECES = 128  # of work that a block notes at most
_ROUNDS = 34  # of the deepest ring: a barrier that counts one arrival too few is early by one more in each
_REPORT = re.compile(r"([\w-]+) at line (\d+): ")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant: reported or wrong (at times only at size), refused or survived."""

    task: Task
    ending: str
    kind: str = ""  # of the first report
    line: int = 0
    reason: str = ""
    seed: int = 0  # of the pre-flight that told


def examine(task: Task) -> Outcome:
    """Emulate a mutant, under one seed after the other until one tells, then at size; in a worker."""
    candidate = task.core.render()
    if task.mutant:
        candidate = replace(candidate, source=task.mutant.apply(candidate.source))
    for seed in SEEDS:
        try:
            found = preflight(candidate, load_family(task.core.family), load_gpu(task.core.gpu), seed=seed)
        except KernelBuildError as error:
            return Outcome(task, "refused", reason=str(error))
        if found.complaint:
            return _told(task, found, seed)
    return _told_at_size(task, candidate)


def _told_at_size(task: Task, candidate: Candidate) -> Outcome:
    """What emulator and validator say of workloads with more heads and keys than the pre-flight's.

    Nothing where the limit of CPU time passes: some kernels need more of it at size, as they are.
    """
    family, gpu = load_family(task.core.family), load_gpu(task.core.gpu)
    names, library = task.core.names(), gxx.build(candidate.source, name=family.name)
    for size, (workload, trial, sms) in _large(task.core, family.loop(names)).items():
        launches = family.launches(task.core.genome, workload, replace(gpu, sm_count=sms))
        emulations, verdict = emulate(
            library,
            launches,
            workload,
            trial,
            delivery="eager",
            schedule="fifo",
            seed=1,
            registers=family.registers(names),
        )
        reports = [report for emulation in emulations for report in emulation.reports]
        if any(report.kind == "TIMEOUT" for report in reports):
            continue
        for report in reports:
            return Outcome(task, f"reported with {size}", report.kind, report.line, report.message)
        if verdict.reason:
            return Outcome(task, f"wrong with {size}", reason=verdict.reason)
    return Outcome(task, "survived")


def _large(core: Core, loop: Loop) -> dict[str, tuple[AttentionWorkload, str, int]]:
    """Like those that candidates are timed on, each as small as shows it: workload, trial, the GPU's SMs.

    Kernels whose blocks take piece after piece also meet a batch that does not divide the blocks that the GPU
    holds, one piece that is done again, and a block with more pieces than it can note.
    """
    key, names, sms = core.key, core.names(), load_gpu(core.gpu).sm_count
    rows, keys = max(1, loop.rows // loop.pack), _ROUNDS * loop.stages * loop.splits * loop.keys
    kv_heads = _HEADS * loop.pack // key.gqa_ratio
    found = {
        "many heads": (key.workload(1, kv_heads, rows + 1, loop.keys), "normal", sms),
        "many keys": (key.workload(1, 1, 9, keys), "normal", sms),
    }
    if not names.get("persistent", False):
        return found
    steps, slots = 2 * loop.keys * loop.splits, sms * names["ctas_per_sm"]
    # Under a causal mask the first block of a head sees nothing; the last one is a single row.
    many = -(-(rows + steps) // rows) * rows + 1
    return found | {
        "many blocks": (key.workload(_BATCH, slots // _BATCH + 1, 1, 1), "normal", sms),
        "one piece": (key.workload(1, 1, rows, rows + steps), "spikes", sms),
        "many pieces": (key.workload(1, _PIECES // 2 + 1, many, steps - 3), "spikes", 0),
    }


def _told(task: Task, found: Preflight, seed: int) -> Outcome:
    report = _REPORT.match(found.complaint)
    if report is None:
        return Outcome(task, "wrong", reason=found.complaint, seed=seed)
    return Outcome(task, "reported", report[1], int(report[2]), found.complaint, seed)
