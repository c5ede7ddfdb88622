"""Shows what `evoflash doctor` found, in lines: machine, noise, self-test, conformance. Runs nothing."""

from collections.abc import Iterator, Sequence

from evoflash.app.doctor import Diagnosis
from evoflash.gpu.timing.noise_floor import NoiseEstimate
from evoflash.trust.conformance.run import Conformance, PrimitiveSummary
from evoflash.trust.selftest.corpus import FraudResult
from evoflash.trust.selftest.run import SelfTest

_SHOWN = 3  # failures of one primitive
_WIDTH = 150  # of a detail in a line


def describe_machine(findings: Sequence[Diagnosis]) -> str:
    return "\n".join(f"{f.state:8} {f.subject:16} {f.detail}" for f in findings)


def describe_noise(floors: Sequence[NoiseEstimate], floor: float) -> str:
    """A line for each protocol, then what counts as equal from now on."""
    said = []
    for each in floors:
        called = f", {each.called} of them called faster or slower" if each.called else ""
        said.append(f"{each.problem} {each.protocol}: {each.pairs} pairs within {each.relative:.2%}{called}")
    return "\n".join([*said, f"from now on {floor:.1%} counts as equal on this machine"])


def line(outcome: FraudResult) -> str:
    return f"{outcome.end:16} {outcome.place:8} {outcome.name:38} {outcome.detail[:_WIDTH]}"


def totals(found: SelfTest) -> str:
    """The last lines: what is not as it should be, again, and how many there were of each."""
    bad = [line(each) for each in found.outcomes if not each.is_good]
    counts = ", ".join(f"{count} {end}" for end, count in found.counts.items())
    on = found.gpu or "no GPU here: its half was not tried"
    cut = ["stopped by Ctrl-C: not all were tried"] if found.interrupted else []
    return "\n".join([*bad, *cut, f"{counts}; in {found.seconds:.0f} s, {on}"])


def describe_conformance(found: Conformance) -> str:
    """A line for each primitive, its failures below it, and a line for all."""
    return "\n".join(_conformance_lines(found))


def _conformance_lines(found: Conformance) -> Iterator[str]:
    for each in found.primitives:
        yield f"{each.state:8} {each.primitive:30} {_detail(each)}"
        for failure in each.failures[:_SHOWN]:
            yield f"         {failure.case}: {failure.detail}"
        if len(each.failures) > _SHOWN:
            yield f"         and {len(each.failures) - _SHOWN} more"
    if found.stopped:
        yield f"stopped {found.stopped}: not all cases have run"
    yield (
        f"{found.equal} of {found.cases} cases are equal in the emulator and on {found.gpu} ({found.arch}), "
        f"in {found.seconds:.0f} s"
    )


def _detail(each: PrimitiveSummary) -> str:
    if each.skipped:
        return each.skipped
    if each.not_run:
        return f"{each.equal} of {each.cases} equal, {each.not_run} not run"
    if each.compare != "ulp":
        return f"{each.equal} of {each.cases} equal"
    errors = ", ".join(f"{side} {error:.2f}" for side, error in sorted(each.worst_ulp.items()))
    return f"{each.equal} of {each.cases} within {each.bound_ulp} ulp ({errors})"
