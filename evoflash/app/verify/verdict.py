"""Judges a claim against what was found, as confirmed, not confirmed or not comparable. Runs nothing."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evoflash.app.search.limits import floor_us
from evoflash.app.verify.claim import Claim, ClaimedBuild
from evoflash.app.verify.claim_sources import ClaimSelector, claim_of
from evoflash.app.verify.reproduction import How, Reproduction, find_out
from evoflash.champions.evidence import archived_kernel, percent_of
from evoflash.errors import UsageError
from evoflash.evaluation import FINAL, Basis, Build, Evaluation, Timing
from evoflash.gpu.timing.paired import ALPHA, student
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import canonical_gpu, load_gpu

# Between two machines: their clocks, drivers and cooling. It is assumed, not measured; --within sets another.
WITHIN = 0.05
_SAME_ESTIMATE = 1e-3  # relative; a model's estimate has no noise, what it counts on random data has a little
_OF_NORMAL = 2.563  # standard deviations from the tenth to the ninetieth percentile


class ClaimStatus(StrEnum):
    """What is said of a claim."""

    CONFIRMED = "confirmed"
    REFUTED = "not confirmed"
    APART = "cannot be compared"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """The answer, why, and what does not decide it."""

    answer: ClaimStatus
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """A time in us with the interval of its median, which is missed with probability `ALPHA`."""

    us: float
    low_us: float
    high_us: float


@dataclass(frozen=True, slots=True)
class Verification:
    """A claim, what was found here, and what is said of it."""

    claim: Claim
    found: Reproduction
    verdict: ClaimVerdict

    def as_dict(self) -> dict[str, Any]:
        """The verdict, the claim and what was found; times in us."""
        claim, found = self.claim, self.found
        here, genome = found.evaluation, found.identity.genome
        known = interval_of(here) if here else None
        return {
            "verdict": str(self.verdict.answer),
            "reasons": list(self.verdict.reasons),
            "notes": list(self.verdict.notes),
            "claimed": {**asdict(claim), "edited": claim.edited is not None},
            "found": {
                "genome_id": genome.id if genome and not claim.edited else None,
                "how": str(found.how),
                "status": str(here.status) if here else None,
                "rung": str(here.rung) if here else None,
                "reason": here.reason if here else None,
                "time_us": here.score_us if here else None,
                "interval_us": [known.low_us, known.high_us] if known else None,
                "registers": [build.registers for build in here.builds] if here else None,
                "spill_bytes": [build.spill_bytes for build in here.builds] if here else None,
                "rel_l2": max((v.rel_l2 for v in here.verdicts), default=None) if here else None,
                "device": found.machine.device_name if found.machine else None,
                "driver": found.machine.driver if found.machine else None,
            },
        }


def verify(
    what: str, selector: ClaimSelector, db: str, *, within: float | None, argv: Sequence[str]
) -> Verification:
    """Read a claim, take its kernel as far as this machine can, and judge. UsageError where there is none."""
    share = parse_tolerance(within)
    claim = claim_of(what, selector, db)
    found = find_out(claim, db, argv=argv)
    return Verification(claim, found, judge(claim, found, within=share))


def parse_tolerance(share: float | None) -> float:
    """How far beyond the interval a claimed time may be. UsageError for what is no share."""
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"--within {share:g}: give a share from 0 up and below 1, as 0.05.")
    return WITHIN if share is None else share


def judge(claim: Claim, found: Reproduction, *, within: float = WITHIN) -> ClaimVerdict:
    """What is untrue comes first, then what cannot be told here; only the rest is confirmed."""
    notes = tuple(_notes(claim, found))
    if wrong := tuple(_refutations(claim, found, within)):
        return ClaimVerdict(ClaimStatus.REFUTED, wrong, notes)
    if apart := tuple(_gaps(claim, found)):
        return ClaimVerdict(ClaimStatus.APART, apart, notes)
    return ClaimVerdict(ClaimStatus.CONFIRMED, (), notes)


def interval_of(evaluation: Evaluation) -> TimeInterval | None:
    """The score with the interval of its final timings; None where there are none.

    From each timing's spread, p10 to p90 as of a normal distribution, and its number of samples.
    """
    timings = [timing for timing in evaluation.timings if timing.protocol in FINAL]
    if evaluation.score_us is None or not timings or any(t.n < 2 or t.spread_us is None for t in timings):
        return None
    error = math.sqrt(sum(_error(timing) ** 2 for timing in timings)) / len(timings)
    reach = math.exp(error * student(ALPHA, min(timing.n for timing in timings) - 1))
    return TimeInterval(evaluation.score_us, evaluation.score_us / reach, evaluation.score_us * reach)


def _error(timing: Timing) -> float:
    """The median's relative standard error."""
    low_us, high_us = timing.spread_us or (timing.median_us, timing.median_us)
    return 1.2533 * (high_us - low_us) / _OF_NORMAL / math.sqrt(timing.n) / timing.median_us


# ---- what is untrue


def _refutations(claim: Claim, found: Reproduction, within: float) -> Iterator[str]:
    yield from claim.faults
    yield from claim.contradictions
    if found.identity.fault:
        yield found.identity.fault
    yield from _impossible(claim)
    if found.evaluation is None or claim.edited is not None:
        return
    if str(found.evaluation.status) != claim.status:
        what = f"{found.evaluation.status} at {found.evaluation.rung}"
        why = f": {found.evaluation.reason}" if found.evaluation.reason else ""
        yield f"it is called {claim.status} and is {what} here{why}"
        return
    yield from _other_code(claim, found.evaluation)
    yield from _other_time(claim, found, within)


def _impossible(claim: Claim) -> Iterator[str]:
    """A time that no such GPU can reach; it takes no GPU to say so."""
    if claim.time_us is None:
        return
    least = floor_us(parse_problem(claim.problem), load_gpu(claim.gpu))
    if claim.basis is Basis.MEASURED and claim.time_us < least:
        yield f"{claim.time_us:.4g} us beats physics: {claim.gpu} takes at least {least:.4g} us"


def _other_code(claim: Claim, evaluation: Evaluation) -> Iterator[str]:
    """Hashes, registers and spills that are not those of the kernel as it is rendered and compiled here.

    Another compiler may make other machine code of the same source: then these are only noted.
    """
    for said, made in _pairs(claim, evaluation):
        if said.source_sha not in ("", made.source_sha):
            hashes = f"{said.source_sha[:12]} is claimed, {made.source_sha[:12]} is this genome's"
            yield f"its source has another hash: {hashes}"
        if not _is_same_compiler(said, made):
            continue
        if said.text_sha not in ("", made.text_sha):
            hashes = f"{said.text_sha[:12]} is claimed, {made.text_sha[:12]} is what the same compiler makes"
            yield f"its machine code has another hash: {hashes}"
        yield from (f"{what}, by the same compiler" for what in _counts(said, made))


def _pairs(claim: Claim, evaluation: Evaluation) -> Iterator[tuple[ClaimedBuild, Build]]:
    """Each claimed build with that of this machine; one that names no architecture stands for the largest."""
    if len(claim.builds) == len(evaluation.builds):
        yield from zip(claim.builds, evaluation.builds, strict=True)
        return
    for said in claim.builds:
        mine = [made for made in evaluation.builds if said.arch in ("", made.compile_key.arch)]
        if mine:
            yield said, max(mine, key=lambda made: made.registers)


def _is_same_compiler(said: ClaimedBuild, made: Build) -> bool:
    """A launch.json names no key: its machine code is read only where its compiler is this one."""
    return said.cubin_key == made.cubin_key if said.cubin_key else said.text_sha != ""


def _counts(said: ClaimedBuild, made: Build) -> Iterator[str]:
    if said.registers not in (None, made.registers):
        yield f"{said.registers} registers are claimed, {made.registers} are here"
    if said.spill_bytes not in (None, made.spill_bytes):
        yield f"{said.spill_bytes} bytes spilled are claimed, {made.spill_bytes} are here"


def _other_time(claim: Claim, found: Reproduction, within: float) -> Iterator[str]:
    here = found.evaluation.score_us if found.evaluation else None
    if claim.time_us is None or here is None:
        return
    if found.how is How.ESTIMATED and abs(claim.time_us - here) > _SAME_ESTIMATE * here + claim.rounded_us:
        model = "the same model" if claim.model_version else "the model of this evoflash"
        yield f"~{claim.time_us:.4g} us are claimed, {model} says ~{here:.4g} us"
    if found.how is not How.MEASURED or found.evaluation is None:
        return
    known = interval_of(found.evaluation) or TimeInterval(here, here, here)
    if not known.low_us * (1 - within) <= claim.time_us <= known.high_us * (1 + within):
        more = here / claim.time_us - 1
        apart = f"{abs(more):.1%} {'more' if more > 0 else 'less'}"
        span = f"{here:.4g} us [{known.low_us:.4g}, {known.high_us:.4g}]"
        equal = f"up to {within:.0%} beyond the interval counts as equal"
        yield f"{claim.time_us:.4g} us are claimed, {span} were measured here, {apart}; {equal}"


# ---- what cannot be told, and what does not decide


def _gaps(claim: Claim, found: Reproduction) -> Iterator[str]:
    yield from claim.apart
    if found.identity.apart:
        yield found.identity.apart
    elif claim.basis is Basis.ESTIMATED and found.how is How.EMULATED:
        model = f"estimated by model {claim.model_version}, this evoflash has model {model_version()}"
        yield f"{model} (correctness checked by the emulator)"
    elif found.how is How.EMULATED:
        present = found.machine.device_name if found.machine else "none"
        has = f"has {present}" if found.machine is None else f"has an {present}"
        where = canonical_gpu(claim.gpu)
        yield f"claimed on {where}, this machine {has} (correctness checked by the emulator)"


def _notes(claim: Claim, found: Reproduction) -> Iterator[str]:
    if claim.edited is not None and found.evaluation is not None:
        reason = found.evaluation.reason
        yield f"the edited kernel fails here: {reason}" if reason else "the edited kernel is correct here"
        return
    if found.evaluation is None:
        return
    for said, made in _pairs(claim, found.evaluation):
        if not _is_same_compiler(said, made):
            yield from (f"{what}: by another compiler or another kernel" for what in _counts(said, made))
    if found.identity.genome is not None:
        yield from _archive_says(claim, found.identity.genome)
    if claim.time_us is None:
        yield "no time is claimed"
    elif found.how is How.MEASURED and interval_of(found.evaluation) is None:
        yield "the final timing failed: the time here has no interval"


def _archive_says(claim: Claim, genome: Genome) -> Iterator[str]:
    """The time that the archive has of this very kernel, beside which any claim is to be read."""
    known = archived_kernel(genome, str(parse_problem(claim.problem)), canonical_gpu(claim.gpu) or "")
    if known is None:
        return
    said = f"the archive has it with {known.time}"
    if claim.time_us is None:
        yield said
    elif claim.basis is Basis.ESTIMATED:
        yield f"{said}; the estimate is {percent_of(claim.time_us / known.us)}"
    elif not math.isclose(claim.time_us, known.us, rel_tol=1e-6, abs_tol=claim.rounded_us):
        yield f"{said}; what is claimed is {percent_of(claim.time_us / known.us)}"
    else:
        yield f"{said}, as it is claimed"
