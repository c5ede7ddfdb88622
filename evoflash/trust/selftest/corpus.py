"""The corpus of frauds and mistakes (frauds/*.toml), and what became of each. Runs nothing.

A file holds an honest kernel, which is a control, and its frauds, changes that each make it wrong. The
kernel:

    family, values, problem     a genome on a workload whose compile key it is rendered for; the workload is
                                what it is timed on where there is a GPU
    lengths                     [seq_q, seq_kv] of the shapes on which the emulator's correctness rung asks it

A fraud:

    name        of a few words; what --only takes
    does        what is wrong with it, one line
    source      where it comes from: a row of a catalogue
    patch       pairs of old text, which must occur once, and new text
    launch      what replaces the header's: grid, block, smem, workspace (expressions), kernels (which of the
                launches are left, in order)
    problem     another workload of the compile key, to be timed on
    emulated    rung = "words": each of these rungs must reject it by itself, in the emulator, and the words
                (a regular expression; "wrong": any threshold of the validator) occur in the reason; or
                skip = "why the emulator cannot"
    measured    the same on a GPU: the first of these rungs that it comes to must
Reads and applies; what became of each fraud is a record here, too.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import Candidate, Rung
from evoflash.kernels.ef_layer import device_headers_sha
from evoflash.kernels.expression import Expression
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.problem import parse_workload
from evoflash.specs import GpuSpec
from evoflash.workload import Workload

# "wrong" among a fraud's words stands for any threshold of validator.judge.
_GATES = r"\b(non-finite in|honest in|max_over_rms in|lse in|rel_l2 )"


class End(StrEnum):
    """How it ended."""

    REJECTED = "rejected"  # a fraud, where and as it should be
    ACCEPTED = "accepted"  # a control
    SKIPPED = "skipped"  # it cannot be tried here
    SLIPPED = "SLIPPED THROUGH"
    ELSEWHERE = "NOT AS NAMED"  # rejected, but by another rung or for another reason
    REFUSED = "WRONGLY REJECTED"  # a control
    BROKEN = "BROKEN"  # the corpus does not fit its kernel, or the machine failed: nothing was shown
    NOT_RUN = "not run"  # the time was up


GOOD = frozenset({End.REJECTED, End.ACCEPTED, End.SKIPPED})


@dataclass(frozen=True, slots=True)
class ExpectedRejection:
    """Where a fraud must be rejected and with which words in the reason; or why it is not tried there.

    Without a rung it is a control: nothing may complain. `every`: each of the rungs has to reject it by
    itself; else one of them.
    """

    rungs: Mapping[Rung, str] = field(default_factory=dict)
    every: bool = True
    skip: str = ""

    def fits(self, rung: Rung, reason: str) -> bool:
        """Whether that rung's reason is one that rejects the fraud for what it is."""
        words = self.rungs.get(rung)
        return words is not None and re.search(_GATES if words == "wrong" else words, reason) is not None


@dataclass(frozen=True, slots=True)
class FraudResult:
    """One fraud or control in one place."""

    name: str
    place: str  # "emulator", "GPU", "NumPy", "records"
    end: End
    detail: str  # the rungs that complained, and their reasons

    @property
    def is_good(self) -> bool:
        return self.end in GOOD


def outcome(name: str, place: str, expected: ExpectedRejection, said: Mapping[Rung, str]) -> FraudResult:
    """From each rung's complaint, "" where it accepted."""
    complaints = {rung: reason for rung, reason in said.items() if reason}
    told = "; ".join(f"{rung}: {reason}" for rung, reason in complaints.items())
    return FraudResult(name, place, _end(expected, complaints), told or "no rung complained")


def _end(expected: ExpectedRejection, complaints: Mapping[Rung, str]) -> End:
    if not expected.rungs:
        return End.REFUSED if complaints else End.ACCEPTED
    if not complaints or (expected.every and expected.rungs.keys() - complaints.keys()):
        return End.SLIPPED
    return End.REJECTED if all(expected.fits(*each) for each in complaints.items()) else End.ELSEWHERE


LIMIT_S = 60.0  # of one fraud in one place; most take under one second
FOLDER = Path(__file__).parent / "frauds"


@dataclass(frozen=True, slots=True)
class Honest:
    """A kernel that frauds are made of; by itself a control, which must be accepted."""

    name: str  # the file's
    family: str
    values: Mapping[str, Any]
    problem: Workload
    lengths: tuple[tuple[int, int], ...]  # of attention; none of a kernel that only the pre-flight sees

    def check_workloads(self) -> tuple[AttentionWorkload, ...]:
        """Small shapes of its compile key, with two batches and two key/value heads: every stride matters.
        None of another operation than attention.
        """
        key = self.problem.compile_key("")
        if not isinstance(key, AttentionKey):
            return ()
        return tuple(key.workload(2, 2, seq_q, seq_kv) for seq_q, seq_kv in self.lengths)


@dataclass(frozen=True, slots=True)
class Fraud:
    """A change to an honest kernel and how it must end; without a change it is a control."""

    kernel: Honest
    name: str
    does: str
    source: str
    problem: str = ""  # another workload of its compile key, to be timed on
    patch: tuple[tuple[str, str], ...] = ()
    launch: Mapping[str, Any] = field(default_factory=dict)
    emulated: ExpectedRejection = field(default_factory=ExpectedRejection)
    measured: ExpectedRejection = field(default_factory=ExpectedRejection)

    @property
    def is_control(self) -> bool:
        return not self.patch and not self.launch


@cache
def kernels(folder: Path = FOLDER) -> tuple[Honest, ...]:
    """The honest kernels, by name."""
    return tuple(_honest(path) for path in sorted(folder.glob("*.toml")))


@cache
def corpus(folder: Path = FOLDER) -> tuple[Fraud, ...]:
    """Each kernel's control and its frauds, in the order of the files. A misspelt key is a TypeError."""
    return tuple(fraud for kernel in kernels(folder) for fraud in _frauds(kernel, folder))


def _honest(path: Path) -> Honest:
    table = {key: value for key, value in _read(path).items() if key != "fraud"}
    problem = parse_workload(table.pop("problem"))
    lengths = tuple((int(q), int(kv)) for q, kv in table.pop("lengths"))
    return Honest(path.stem, problem=problem, lengths=lengths, **table)


def _frauds(kernel: Honest, folder: Path) -> Iterator[Fraud]:
    yield Fraud(kernel, f"honest {kernel.name}", "is right", "control")
    for table in _read(folder / f"{kernel.name}.toml")["fraud"]:
        patch = tuple((old, new) for old, new in table.pop("patch", ()))
        emulated, measured = (_parse_expected(table.pop(where)) for where in ("emulated", "measured"))
        measured = replace(measured, every=False)  # a candidate stops at the first rung that rejects it
        yield Fraud(kernel, patch=patch, emulated=emulated, measured=measured, **table)


def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def _parse_expected(table: dict[str, str]) -> ExpectedRejection:
    skip = table.pop("skip", "")
    return ExpectedRejection({Rung(rung): words for rung, words in table.items()}, skip=skip)


def build_fraud(fraud: Fraud, gpu: GpuSpec) -> tuple[Candidate, Family]:
    """The fraud's text and a family with its launches. UsageError where a patch does not fit its kernel."""
    kernel = fraud.kernel
    candidate = _render_honest(kernel.name, kernel.family, tuple(kernel.values.items()), kernel.problem, gpu)
    source = _apply_patch(candidate.source, fraud)
    sha = hashlib.sha256((source + device_headers_sha()).encode()).hexdigest()
    family = _with_launch(load_family(fraud.kernel.family), fraud)
    return replace(candidate, source=source, source_sha=sha), family


@lru_cache(maxsize=64)
def _render_honest(
    name: str, family: str, values: tuple[tuple[str, Any], ...], problem: Workload, gpu: GpuSpec
) -> Candidate:
    """The honest kernel of that name; UsageError where the GPU cannot have it."""
    key = problem.compile_key(gpu.arch)
    space = load_family(family).space((key,), gpu)
    genome = space.genome(dict(values))
    if broken := space.violations(genome):
        raise UsageError(f"{name}: {', '.join(broken)} on {gpu.name}.")
    return render(genome, key, gpu)


def _apply_patch(text: str, fraud: Fraud) -> str:
    for old, new in fraud.patch:
        if text.count(old) != 1:
            raise UsageError(f"{fraud.name}: {text.count(old)} times in {fraud.kernel.name}: {old}")
        text = text.replace(old, new)
    return text


def _with_launch(family: Family, fraud: Fraud) -> Family:
    change = dict(fraud.launch)
    first, *others = (family.kernels[at] for at in change.pop("kernels", range(len(family.kernels))))
    where = f"{fraud.name}: launch"
    if "workspace" in change:
        family = replace(family, workspace=Expression(change.pop("workspace"), where, (int,)))
    for key, value in change.items():
        texts = value if isinstance(value, list) else [value]
        made = tuple(Expression(text, where, (int,)) for text in texts)
        changes: dict[str, Any] = {key: made if isinstance(value, list) else made[0]}
        first = replace(first, **changes)
    return replace(family, kernels=(first, *others))
