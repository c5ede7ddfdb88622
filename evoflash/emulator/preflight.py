"""Runs a rendered kernel in the CPU emulator on small adversarial shapes: races, deadlocks, bounds, numbers.

It proves synchronisation and indexing under our reading of PTX, on the pre-flight shapes only; it times
nothing. The benchmark's shape is not emulated.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from evoflash.compilers import gxx as hostcompiler
from evoflash.emulator import launch as emulator
from evoflash.emulator.attention import Run, attend
from evoflash.evaluation import Candidate, Launch, Status, Verdict
from evoflash.families.family import Family, Loop
from evoflash.gpu import GpuSpec
from evoflash.perf_model.estimate import Profile, fit_counts, mean_counts, steps_of
from evoflash.problem import CompileKey, Workload
from evoflash.validation import inputs as trials
from evoflash.validation.reference import every_row, expect
from evoflash.validation.validator import judge

CPU_LIMIT_S = 10.0  # of one emulated launch; the slowest of a healthy kernel takes under one


@dataclass(frozen=True, slots=True)
class _Run:
    """One emulation of the pre-flight set."""

    workload: Workload
    trial: str
    delivery: emulator.Delivery
    schedule: emulator.Schedule
    crowded: bool = False  # on a GPU with room for one CTA: persistent CTAs then take several blocks each
    wants_lse: bool = True
    is_strided: bool = False


@dataclass(frozen=True, slots=True)
class Preflight:
    """What the emulator found: no complaint means ready for a GPU."""

    complaint: str  # one line, empty when all is well
    status: Status  # CORRECT, or what the complaint amounts to
    verdicts: tuple[Verdict, ...]
    profile: Profile  # for the performance model


def shapes(key: CompileKey, loop: Loop) -> tuple[Workload, ...]:
    """The pre-flight set of a kernel: long, wrapping, stub, whole, brief, lone, odd, short, single, late;
    under a causal mask also stairs.

    Long: every ring slot is used twice (2 x stages + 1 KV tiles), with a tail in rows and keys and two query
    blocks. Wrapping: as many tiles, the last one whole, and a warp whose first row sees all keys but one.
    Stub: less than one tile, and five query blocks or more of two heads, for a block of threads that takes
    one after another; under a causal mask rows that see nothing, and blocks that lack more than a tile.
    Whole: a full step. Brief: one key in the last tile, the second of its split, and under a causal mask only
    a warp's last row sees it. Lone: one row in the last query block and one key, in more heads than a ring
    has slots; under a causal mask every other block is without a tile. Odd: a tile but for its last key.
    Short: a whole tile, the only one of the last split where the others have two; under a causal mask a warp
    whose first row sees all of it but the last key. Single: one row and one key. Late: two tiles for each
    split, whole but for the last key. Stairs: one query block of two heads; its first row sees more than a
    tile, and only its last row the last tile, of one key.
    """
    steps = 2 * loop.stages * loop.splits * loop.keys
    step, rows = loop.keys * loop.splits, max(1, loop.rows // loop.pack)
    stub = key.workload(1, 2, max(4 * rows, rows + 2 * loop.keys) + 9 if key.causal else 4 * rows + 9, 6)
    lone = key.workload(1, 2 * loop.stages + 1, rows + 1, 1)
    lengths = (
        # The same rows where they are compared: what they cost besides their KV tiles then cancels in the
        # model's profile.
        (rows + 9, steps + loop.keys - 1),
        (rows + 2, steps + loop.keys),
        (rows + 9, step),
        (rows, (2 * loop.splits - 1) * loop.keys + 1),
        # Tiles of one pair of keys, or of none, are not cut by one key.
        (9, loop.keys - 1 if loop.keys > 8 else 7),
        (2, (2 * loop.splits - 1) * loop.keys),
        (1, 1),
        (9, 2 * step - 1),
    )
    long, wrapping, whole, brief, odd, short, single, late = (key.workload(1, 1, *each) for each in lengths)
    stairs = key.workload(1, 2, rows, (-(-rows // loop.keys) + 1) * loop.keys + 1)
    always = long, wrapping, stub, whole, brief, lone, odd, short, single, late
    return (*always, stairs) if key.causal else always


def _plan(key: CompileKey, loop: Loop) -> tuple[_Run, ...]:
    """Other numbers with every schedule. scripts/mutation_testing/run.py shows what each run is there for."""
    long, wrapping, stub, whole, brief, lone, odd, short, single, late, *stairs = shapes(key, loop)
    return (
        _Run(long, "normal", "lazy", "fifo"),
        # Spikes: every row's maximum jumps in another tile, so that threads differ in what they must do.
        # Tensors as a program has them that keeps the heads of a row together: CONTRACTS 3 promises strides.
        _Run(wrapping, "spikes", "random", "random", crowded=True, is_strided=True),
        # Maxima below -500: what is not shifted by them underflows.
        _Run(stub, "saturated", "eager", "fifo", crowded=True),
        # With the first, a line for the performance model. Both have ordinary inputs, because some kernels
        # do more for others.
        _Run(whole, "normal", "lazy", "fifo"),
        # The last key, alone in its tile, outweighs the rest. LSE may be null.
        _Run(brief, "rising", "eager", "random", wants_lse=False),
        _Run(lone, "large_logits", "eager", "fifo", crowded=True),
        _Run(odd, "saturated", "eager", "fifo"),
        # The last key outweighs the rest here too: a row that sees it and must not is far off.
        _Run(short, "rising", "eager", "fifo"),
        _Run(single, "large_logits", "eager", "fifo"),
        # Maxima below -500 again: a key past the end that is not hidden outweighs all others.
        _Run(late, "saturated", "eager", "fifo"),
        # Each warp's last key outweighs those before it; what one of them leaves out, another waits for.
        *(_Run(each, "rising", "lazy", "random", crowded=True) for each in stairs),
    )


def preflight(
    candidate: Candidate, family: Family, gpu: GpuSpec, *, seed: int, registers: int = 0
) -> Preflight:
    """Emulates the candidate on its pre-flight set, async copies delivered at once, late, or by chance.

    `registers` is what the compiler gave a thread, for setmaxnreg's pool; 0: what the family says of it.
    """
    key = candidate.compile_key
    names = family.names(candidate.genome.as_dict(), key, gpu)
    library = hostcompiler.build(candidate.source, name=family.name)
    loop = family.loop(names)
    plan = _plan(key, loop)
    verdicts, counters = [], []
    for at, each in enumerate(plan):
        launches = family.launches(candidate.genome, each.workload, _crowded(gpu) if each.crowded else gpu)
        emulations, verdict = emulate(
            library,
            launches,
            each.workload,
            each.trial,
            delivery=each.delivery,
            schedule=each.schedule,
            seed=seed + at,
            registers=registers or family.registers(names),
            wants_lse=each.wants_lse,
            is_strided=each.is_strided,
        )
        verdicts.append(verdict)
        counters.append([emulation.counters for emulation in emulations])
        reports = tuple(report for emulation in emulations for report in emulation.reports)
        complaint = _complaint(reports, verdict)
        if complaint:
            return Preflight(f"{complaint} [{each.workload}]", _status(reports), tuple(verdicts), _EMPTY)
    counted = ((plan[0].workload, counters[0]), (plan[3].workload, counters[3]))
    return Preflight("", Status.CORRECT, tuple(verdicts), _profile(loop, family.uncounted(names), *counted))


def _crowded(gpu: GpuSpec) -> GpuSpec:
    """No SM of its own for any CTA: a grid that goes by the GPU's size has a single one."""
    return replace(gpu, sm_count=0)


_EMPTY = Profile((), 1, 1, 1, 1, 0.0)
_ENDLESS = {"TIMEOUT", "LIVELOCK", "DEADLOCK"}


def _status(reports: tuple[emulator.Report, ...]) -> Status:
    kinds = {report.kind for report in reports}
    if not kinds:
        return Status.CORRECTNESS
    return Status.TIMEOUT if kinds & _ENDLESS else Status.RUNTIME


_Counted = tuple[Workload, list[dict[str, int]]]  # a workload, and each launch's counters on it


def _profile(loop: Loop, uncounted: int, *counted: _Counted) -> Profile:
    """From two lengths: the first launch's line per step of its loop, the others' means per CTA."""
    shape = Profile(
        (),
        loop.rows,
        loop.keys,
        loop.stages,
        loop.splits,
        uncounted,
        loop.pack,
        cluster=loop.cluster,
        overlaps=bool(loop.overlaps),
        row_tiles=loop.row_tiles,
        operand_bytes=loop.operand_bytes,
    )
    steps = [steps_of(workload, shape) for workload, _ in counted]
    heads = counted[0][0].heads // loop.pack
    runs = tuple(
        (counters[0], heads * len(each), heads * sum(each))
        for each, (_, counters) in zip(steps, counted, strict=True)
    )
    rest = (mean_counts(counters) for counters in counted[0][1][1:])
    return replace(shape, launches=(fit_counts(runs), *rest))


def _complaint(reports: tuple[emulator.Report, ...], verdict: Verdict) -> str:
    if reports:
        first = reports[0]
        more = f" (and {len(reports) - 1} other reports)" if len(reports) > 1 else ""
        message = " ".join(first.message.split())
        return f"{first.kind} at line {first.line}: {message[:300]}{more}"
    return "" if verdict.passed else verdict.reason


def emulate(
    library: Path,
    launches: tuple[Launch, ...],
    workload: Workload,
    trial_name: str,
    *,
    delivery: emulator.Delivery,
    schedule: emulator.Schedule,
    seed: int,
    registers: int = 0,
    wants_lse: bool = True,
    is_strided: bool = False,
) -> tuple[tuple[emulator.Emulation, ...], Verdict]:
    """Run the launches on one trial's inputs, and judge what they wrote by the reference, every row of it."""
    trial = trials.draw(trial_name, workload, seed=seed)
    run = Run(delivery, schedule, seed, CPU_LIMIT_S, registers, wants_lse, is_strided)
    emulations, output = attend(library, launches, workload, trial, run)
    expected = expect(workload, trial.q, trial.k, trial.v, where=every_row(workload))
    return emulations, judge(workload, [(trial, expected, output)])
