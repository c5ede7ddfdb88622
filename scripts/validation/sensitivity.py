"""What single faults do to a real kernel's output, what allclose(1e-2) says of it, and which gate says more.

The kernel is flash_mma's, rendered and patched; each fault on ordinary inputs at short and long lengths,
where an absolute tolerance is larger than the signal. Then the trials that a benchmark's shape is checked
with, and the check shapes with all trials and oracles: which of them rejects it.

    python -m scripts.validation.sensitivity -o scripts/validation/records/sensitivity-h200.json
"""

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np

from evoflash import __version__
from evoflash.errors import UsageError
from evoflash.evaluation import Candidate
from evoflash.gpu.arena import MemoryFaultError
from evoflash.gpu.launcher import KernelHungError
from evoflash.kernels.ef_layer import device_headers_sha
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.numerics import decode
from evoflash.operation import Output
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import AT_SIZE, AttentionInputs, check_workloads
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.space import Value
from evoflash.validation.metamorphic import check_correctness
from evoflash.validation.validator import judge, measure
from scripts.command_line import command
from scripts.validation.subjects import Machine, Reference, Silicon, Subject, machine_of, reference

HEAD_DIM = 128
FAMILY = "flash_mma"
GENES: dict[str, Value] = {"warps": 4, "block_n": 64, "waits": "joint", "k_stages": 2}
LENGTHS = (512, 4096, 32768)
MOST_ROWS = 1024  # of queries: each has all the keys
EMULATED = ((3, 40), (70, 33))  # check shapes in the emulator
_SCALE = "const float scale_log2 = scale * kLog2e;"
_MASKED = ("    if (first_key + BLOCK_N > seq_kv) {", "    {")
_SHIFT = "const float shift = best == ef::neg_inf() ? 0.0f : ef::mul(best, scale_log2);"
_SHRINK = "const float shrink = ef::ex2(ef::sub(ef::mul(row_max[t][h], scale_log2), shift));"
_KEY = "first_key + n * 8 + lane % 4 * 2 + e % 2"

Patch = tuple[tuple[str, str], ...]


def _last_keys_dropped(count: int) -> Patch:
    return (_MASKED, ("const int limit = seq_kv;", f"const int limit = seq_kv - {count};"))


def _scaled(factor: float) -> Patch:
    return ((_SCALE, f"const float scale_log2 = scale * kLog2e * {factor!r}f;"),)


def _three_bits(dtype: str) -> Patch:
    half, rest = ("0x00400040u", "0xff80ff80u") if dtype == "fp16" else ("0x00080008u", "0xfff0fff0u")
    old = "s[t][2 * k + i / 2][i % 2 * 2 + 1], element());"
    return ((old, old.replace(");", f") + {half} & {rest};")),)


FAULTS: dict[str, Callable[[str], Patch]] = {
    "honest": lambda dtype: (),
    "P with 3 mantissa bits": _three_bits,
    "scale wrong by 1 %": lambda dtype: _scaled(1.01),
    "scale from d-1": lambda dtype: _scaled(float((HEAD_DIM / (HEAD_DIM - 1)) ** 0.5)),
    "last key dropped": lambda dtype: _last_keys_dropped(1),
    "last 64 keys dropped": lambda dtype: _last_keys_dropped(64),
    "10 % of keys dropped": lambda dtype: (
        _MASKED,
        (f"if ({_KEY} >= limit)", f"if ({_KEY} >= limit || ({_KEY}) % 10 == 9)"),
    ),
    "uniform mean(V)": lambda dtype: _scaled(1e-30),
    "all zeros": lambda dtype: (("sum == 0.0f ? 0.0f : ef::rcp(sum);", "0.0f;"),),
    "no max-subtraction": lambda dtype: (
        (_SHIFT, "const float shift = 0.0f;"),
        (_SHRINK, "const float shrink = 1.0f;"),
        ("row_max[t][h] * scale + ef::lg2(sum) * kLn2", "ef::lg2(sum) * kLn2"),
    ),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A fault at one length, on ordinary inputs."""

    fault: str
    dtype: str
    keys: int
    rel_l2: float
    allclose: float  # the share of elements within atol = rtol = 1e-2
    on_normal: str  # what the gates say of these inputs alone; empty when they let it pass
    at_size: str  # and of all kinds of input that the benchmark's shape is checked with

    @property
    def passes_allclose(self) -> bool:
        return self.allclose == 1.0


def patched(candidate: Candidate, patch: Patch) -> Candidate:
    """The candidate with the patch. UsageError where it does not fit: the template has changed."""
    source = candidate.source
    for old, new in patch:
        if source.count(old) != 1:
            raise UsageError(f"{source.count(old)} times in {FAMILY}: {old}")
        source = source.replace(old, new)
    sha = hashlib.sha256((source + device_headers_sha()).encode()).hexdigest()
    return replace(candidate, source=source, source_sha=sha)


def subject_of(machine: Machine, fault: str, dtype: str) -> Subject:
    """The kernel with the fault, built."""
    key = AttentionKey(HEAD_DIM, dtype, False, 1, machine.gpu.arch)
    family = load_family(FAMILY)
    genome = family.space((key,), machine.gpu).genome(GENES)
    candidate = render(genome, key, machine.gpu)
    return Subject(genome, key, machine.compiled(patched(candidate, FAULTS[fault](dtype))))


@cache
def _reference(workload: AttentionWorkload, name: str) -> Reference:
    return reference(workload, name, 1)  # the same for all faults


def measured(machine: Machine, subject: Subject, fault: str, keys: int) -> Row:
    """One fault at one length."""
    workload = subject.key.workload(1, 2, min(keys, MOST_ROWS), keys)
    known = [_reference(workload, name) for name in AT_SIZE]
    outputs = [machine.run(subject, workload, t, e.sample) for t, e in known]
    (trial, expected), output = known[0], outputs[0]
    close = np.isclose(
        decode(output.tensors["O"], workload.dtype).reshape(expected.rows["O"].right.shape),
        expected.rows["O"].right,
        1e-2,
        1e-2,
    )
    results = [(t, e, o) for (t, e), o in zip(known, outputs, strict=True)]
    return Row(
        fault,
        workload.dtype,
        keys,
        rel_l2=measure(workload, trial, expected, output).rel_l2,
        allclose=float(close.mean()),
        on_normal=judge(workload, results[:1]).reason,
        at_size=judge(workload, results).reason,
    )


def on_check_shapes(machine: Machine, subject: Subject) -> str:
    """Which check shape, trial or oracle rejects the kernel first; empty when none does."""
    shapes = check_workloads([subject.key])
    if not isinstance(machine, Silicon):
        shapes = tuple(subject.key.workload(1, 2, *lengths) for lengths in EMULATED)
    for workload in shapes:
        verdict = check_correctness(runner(machine, subject, workload), workload, seed=1)
        if not verdict.passed:
            return f"{workload.seq_q} x {workload.seq_kv}: {verdict.reason}"
    return ""


def runner(
    machine: Machine, subject: Subject, workload: AttentionWorkload
) -> Callable[[AttentionInputs], Output]:
    """The kernel as the validator wants it: whole outputs of the workload's shape."""
    shape = (workload.batch, workload.heads, workload.seq_q)

    def run(trial: AttentionInputs) -> Output:
        output = machine.run(subject, workload, trial, every_row(workload))
        lse = output.tensors["LSE"].reshape(shape)
        return dense.output(output.tensors["O"].reshape(*shape, workload.head_dim), lse)

    return run


def table(rows: list[Row], checks: dict[str, str], lengths: list[int]) -> str:
    """The table of evolution.md 3.2, and how each fault ends."""
    lines = [f"| fault | dtype | {' | '.join(f'S={n}' for n in lengths)} | at size | check shapes |"]
    lines.append("|---|---|" + "---|" * (len(lengths) + 2))
    for name, dtype in dict.fromkeys((row.fault, row.dtype) for row in rows):
        found = [row for row in rows if (row.fault, row.dtype) == (name, dtype)]
        cells = [
            f"{'**pass**' if row.passes_allclose else f'{row.allclose:.1%}'} {row.rel_l2:.1e}"
            f"{'' if row.on_normal else ' (gates pass)'}"
            for row in found
        ]
        cells += ["-"] * (len(lengths) - len(cells))
        at_size = {row.at_size.split(":")[0] for row in found if row.at_size}
        checked = checks.get(f"{name}, {dtype}", "not run")
        lines.append(
            f"| {name} | {dtype} | {' | '.join(cells)} | {', '.join(sorted(at_size)) or 'accepted'} | "
            f"{checked.split(';')[0] or 'accepted'} |"
        )
    return "\n".join(lines)


def slipped(rows: list[Row], checks: dict[str, str]) -> list[str]:
    """Faults that check shapes or the benchmark's shape let pass, and honest kernels that they do not."""
    found = []
    for row in rows:
        is_rejected = bool(row.at_size or checks.get(f"{row.fault}, {row.dtype}"))
        if is_rejected == (row.fault == "honest"):
            found.append(f"{row.fault}, {row.dtype}, {row.keys} keys: {row.at_size or 'accepted'}")
    return found


def run_all(machine: Machine, args: argparse.Namespace, started: float) -> tuple[list[Row], dict[str, str]]:
    """Every fault in both dtypes at every length, and on the check shapes; ends at the time limit."""
    rows: list[Row] = []
    checks: dict[str, str] = {}
    for fault in FAULTS if args.only is None else [args.only]:
        for dtype in ("fp16", "bf16"):
            if time.monotonic() - started > args.time_limit:
                print("cut by --time-limit", file=sys.stderr)
                return rows, checks
            subject = subject_of(machine, fault, dtype)
            rows += [measured(machine, subject, fault, keys) for keys in args.lengths]
            checks[f"{fault}, {dtype}"] = on_check_shapes(machine, subject)
    return rows, checks


def main() -> None:
    """Parse, measure, write; exit code 1 when a fault slipped through or the honest kernel was rejected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS), help="of keys")
    parser.add_argument("--only", choices=FAULTS, help="one fault")
    parser.add_argument("--time-limit", type=float, default=180.0, help="seconds")
    parser.add_argument("--emulated-as", metavar="GPU", help="run in the emulator, in the place of this GPU")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    started, machine = time.monotonic(), machine_of(args.emulated_as)
    try:
        rows, checks = run_all(machine, args, started)
    except UsageError as error:
        sys.exit(f"sensitivity: {error}")
    except (MemoryFaultError, KernelHungError) as error:
        sys.exit(f"sensitivity: the kernel {error}")
    record = {
        "command": command(),
        "date": date.today().isoformat(),
        "evoflash": __version__,
        "machine": machine.name,
        "family": FAMILY,
        "genes": GENES,
        "seconds": round(time.monotonic() - started, 1),
        "rows": [asdict(row) for row in rows],
        "check_shapes": checks,
        "slipped": (through := slipped(rows, checks)),
    }
    if args.output:
        args.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(table(rows, checks, args.lengths))
    print(f"{len(through)} slipped through", *through, sep="\n")
    sys.exit(bool(through))


if __name__ == "__main__":
    main()
