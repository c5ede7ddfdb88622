"""Reads what somebody says of a kernel from the JSON that evoflash prints. Believes and runs nothing.

The forms: a row of `leaderboard --json`; a kernel as `best`, `show`, `evaluate` and `search --json` have it;
the launch.json of an export; a configuration of T4 results; a bare {"family": ..., "values": {...}}.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import SCORED, Basis, Evaluation, Status, score
from evoflash.replay.t4_results import ESTIMATED_TIME, TIME
from evoflash.runtime.description import FORMAT
from evoflash.space import Value

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClaimedBuild:
    """What a compiler is said to have made; empty texts and None where nothing is said."""

    arch: str = ""
    source_sha: str = ""
    cubin_key: str = ""  # of the source, the flags and the compiler: equal keys give equal machine code
    text_sha: str = ""
    registers: int | None = None
    spill_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """One kernel, and what is said of it; None and empty texts where nothing is said."""

    origin: str  # where it was read, in words
    family: str
    values: Mapping[str, Value]
    problem: str
    gpu: str
    genome_id: str = ""
    basis: Basis = Basis.MEASURED  # of the time
    status: str = Status.CORRECT.value
    time_us: float | None = None
    model_version: str = ""
    builds: tuple[ClaimedBuild, ...] = ()
    device: str = ""  # the GPU and its driver, as the claim has them
    driver: str = ""
    faults: tuple[str, ...] = ()  # why it is not the kernel that it says, seen without running anything
    contradictions: tuple[str, ...] = ()  # what in it denies the rest of it
    apart: tuple[str, ...] = ()  # what this evoflash cannot tell of it
    edited: Path | None = None  # an export whose kernel was edited
    rounded_us: float = 0.0  # by so much the time may be off because it was written in few digits


def of_evaluation(evaluation: Evaluation, origin: str) -> Claim:
    builds = tuple(
        ClaimedBuild(b.compile_key.arch, b.source_sha, b.cubin_key, b.text_sha, b.registers, b.spill_bytes)
        for b in evaluation.builds
    )
    return Claim(
        origin,
        evaluation.genome.family,
        evaluation.genome.as_dict(),
        evaluation.problem,
        evaluation.gpu,
        evaluation.genome.id,
        evaluation.basis,
        str(evaluation.status),
        evaluation.score_us,
        evaluation.model_version,
        builds,
        evaluation.environment.get("gpu", ""),
        evaluation.environment.get("driver_cuda", ""),
    )


def of_json(data: Json, origin: str) -> Claim:
    """One object of any of the forms. UsageError for one that names no kernel, or cannot be read."""
    read = _Reading(data, origin)
    if data.get("format") == FORMAT:
        return _of_launch(read)
    if isinstance(data.get("configuration"), dict):
        return _of_t4(read)
    if data.get("kind") == "baseline":
        raise read.wrong("is a library's: `evoflash baselines` times those")
    if isinstance(data.get("genome"), dict):
        return _of_kernel(read)
    return _of_row(read)


class _Reading:
    """An object that is read key by key; whatever is no such thing is a UsageError that names the key."""

    def __init__(self, data: Json, origin: str) -> None:
        self.data, self.origin = data, origin

    def wrong(self, what: str) -> UsageError:
        return UsageError(f"{self.origin} {what}.")

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str | None):
            raise self.wrong(f"has no text under '{key}'")
        return value or ""

    def number(self, key: str) -> float | None:
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.wrong(f"has no number under '{key}'")
        return float(value)

    def count(self, key: str) -> int | None:
        value = self.number(key)
        if value is not None and value != int(value):
            raise self.wrong(f"has no whole number under '{key}'")
        return None if value is None else int(value)

    def table(self, key: str) -> "_Reading":
        value = self.data.get(key)
        if not isinstance(value, dict | None):
            raise self.wrong(f"has no object under '{key}'")
        return _Reading(value or {}, self.origin)

    def tables(self, key: str) -> list["_Reading"]:
        value = self.data.get(key) or []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(f"has no list of objects under '{key}'")
        return [_Reading(each, self.origin) for each in value]

    def basis(self, key: str = "basis") -> Basis:
        word = self.text(key) or Basis.MEASURED.value
        if word not in (Basis.MEASURED.value, Basis.ESTIMATED.value):
            raise self.wrong(f"is {word}: only what was measured or estimated can be verified")
        return Basis(word)

    def claim(self, family: str, **said: Any) -> Claim:
        values = self.table("values").data
        if not family or not isinstance(self.data.get("values"), dict):
            raise self.wrong(
                'names no kernel: give {"family": ..., "values": {...}}, or what `leaderboard --json` or '
                "`best --json` prints"
            )
        if not all(isinstance(value, str | int | bool) for value in values.values()):
            raise self.wrong("has values that no gene has")
        return Claim(self.origin, family, values, **said)


def _of_row(read: _Reading) -> Claim:
    """A row of the leaderboard, or a bare family with values."""
    build = ClaimedBuild(registers=read.count("registers"), spill_bytes=read.count("spill_bytes"))
    return read.claim(
        read.text("family") or read.text("name"),
        problem=read.text("problem"),
        gpu=read.text("gpu"),
        genome_id=read.text("genome_id"),
        basis=read.basis(),
        time_us=read.number("score_us"),
        model_version=read.text("model_version"),
        builds=() if build == ClaimedBuild() else (build,),
    )


def _of_kernel(read: _Reading) -> Claim:
    """What `best`, `show`, `evaluate` and `search` print; of the archive's kernels the archived time."""
    genome, noted = read.table("genome"), read.table("environment")
    is_archived = read.text("basis") == "archived"
    known = read.table("archived")
    claim = genome.claim(
        genome.text("family"),
        problem=read.text("problem"),
        gpu=read.text("gpu"),
        genome_id=genome.text("id"),
        basis=Basis.MEASURED if is_archived else read.basis(),
        status=read.text("status") or Status.CORRECT.value,
        time_us=known.number("us") if is_archived else read.number("score_us"),
        model_version=read.text("model_version"),
        builds=tuple(map(_build, read.tables("builds"))),
        device=known.text("device") or noted.text("gpu"),
        driver=noted.text("driver_cuda"),
    )
    return claim if is_archived else replace(claim, contradictions=_contradictions(read, claim))


def _build(read: _Reading) -> ClaimedBuild:
    return ClaimedBuild(
        read.table("compile_key").text("arch"),
        read.text("source_sha"),
        read.text("cubin_key"),
        read.text("text_sha"),
        read.count("registers"),
        read.count("spill_bytes"),
    )


def _contradictions(read: _Reading, claim: Claim) -> tuple[str, ...]:
    """A score that is not the mean of the record's own times, a verdict that its own checks deny."""
    found, us = [], _score(read.tables("timings"))
    if claim.time_us and us and not math.isclose(us, claim.time_us, rel_tol=1e-6):
        found.append(f"its score is {claim.time_us:.4g} us, its own times say {us:.4g} us")
    failed = [each.text("workload") for each in read.tables("verdicts") if each.data.get("passed") is False]
    if claim.status == Status.CORRECT.value and failed:
        found.append(f"it is called correct, its own check of {failed[0]} failed")
    return tuple(found)


def _score(timings: list["_Reading"]) -> float | None:
    """The mean over the workloads of the medians in the protocol that ranks; None without one."""
    times = [(each.text("protocol"), each.number("median_us")) for each in timings]
    ranked = next((name for name in SCORED if any(name == protocol for protocol, _ in times)), None)
    medians = [us for protocol, us in times if protocol == ranked and us is not None and us > 0]
    return score(medians) if medians else None


def _of_t4(read: _Reading) -> Claim:
    """A configuration of Kernel Tuner's T4 results, as `evoflash export --kind t4` writes them."""
    ours, inactive = read.table("evoflash"), read.table("evoflash").data.get("inactive") or ()
    if not ours.text("family"):
        raise read.wrong("is no T4 result that evoflash wrote: it does not name its family")
    values = {gene: value for gene, value in read.table("configuration").data.items() if gene not in inactive}
    names = (TIME, ESTIMATED_TIME)
    times = [each.number("value") for each in read.tables("measurements") if each.text("name") in names]
    named = _Reading({"values": values}, read.origin)
    return named.claim(
        ours.text("family"),
        problem=ours.text("problem"),
        gpu=ours.text("gpu"),
        genome_id=ours.text("genome"),
        basis=ours.basis(),
        status=ours.text("status") or Status.CORRECT.value,
        time_us=1e3 * times[0] if times and times[0] else None,
        model_version=ours.text("model_version"),
    )


def _of_launch(read: _Reading) -> Claim:
    """The launch.json of an exported folder; its cubins are claim_sources.py's."""
    kernel, verified = read.table("kernel"), read.table("verified")
    noted = verified.table("environment")
    status, is_archived = verified.text("status"), verified.text("basis") == "archived"
    images = read.table("images")
    return kernel.claim(
        kernel.text("family"),
        problem=read.text("problem"),
        gpu=read.text("gpu"),
        genome_id=kernel.text("genome"),
        basis=Basis.MEASURED if is_archived else verified.basis(),
        status=status if status in list(Status) else Status.CORRECT.value,
        time_us=_score(read.tables("timings")),
        builds=tuple(
            ClaimedBuild(arch, registers=images.table(arch).count("registers")) for arch in images.data
        ),
        device=verified.text("archived") if is_archived else noted.text("gpu"),
        driver="" if is_archived else noted.text("driver_cuda"),
    )
