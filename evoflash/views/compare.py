"""Shows a comparison of two kernels as JSON or text. Computes nothing."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evoflash.app.compare import ComparisonResult, ComparisonRun, PairResult
from evoflash.evaluation import Timing
from evoflash.gpu.timing.paired import PREFIX

MEANING = {
    "cold": "replays of a graph, inputs from DRAM",
    "hot": "replays of a graph, inputs in L2",
    "cold-boost": "replays of a graph in windows of 10 ms after idling: boost clock",
    "cold-sustained": "replays of a graph back to back: under the power cap",
    "call": "one eager call at a time, the host's cost included",
}


def text(run: ComparisonRun, outcome: ComparisonResult) -> str:
    """A paragraph for each workload and protocol; A is the first contender, B the second."""
    names = [f"{letter}  {contender.name}" for letter, contender in zip("AB", run.contenders, strict=True)]
    lines = [*names, *(line for result in outcome.results for line in _paragraph(result))]
    return "\n".join([*lines, *(f"note: {note}" for note in outcome.notes)])


def _paragraph(result: PairResult) -> list[str]:
    comparison = result.comparison
    protocol = comparison.protocol.removeprefix(PREFIX)
    return [
        "",
        f"{comparison.workload}, {protocol}: {MEANING[protocol]}",
        *(f"  {letter}  {_times(timing)}" for letter, timing in zip("AB", result.timings, strict=True)),
        f"  {_answer(result)}",
    ]


def _times(timing: Timing) -> str:
    clock = f", {timing.sm_clock_mhz} MHz" if timing.sm_clock_mhz else ""
    throttled = f"; {timing.throttle}" if timing.throttle else ""
    return f"{timing.median_us:.2f} us, p10 {timing.p10_us:.2f}, p90 {timing.p90_us:.2f}{clock}{throttled}"


def _answer(result: PairResult) -> str:
    comparison = result.comparison
    span = f"{comparison.ratio:.4f} [{comparison.low:.4f}, {comparison.high:.4f}] of B's time"
    sure = f"{comparison.confidence:.1%} interval, {comparison.n} blocks of pairs"
    if comparison.answer == "unclear":
        return f"unclear: A takes {span} ({sure}; up to {comparison.noise:.1%} counts as equal)"
    return f"A is {comparison.answer}: {span} ({sure})"


def as_json(run: ComparisonRun, outcome: ComparisonResult) -> str:
    """One object; times in us, the ratio is A's time over B's."""
    first, second = (contender.name for contender in run.contenders)
    table = {
        "problem": str(run.problem),
        "gpu": run.spec.name,
        "first": first,
        "second": second,
        "results": [_row(result) for result in outcome.results],
        "notes": list(outcome.notes),
    }
    return json.dumps(table, indent=2)


def _row(result: PairResult) -> dict[str, Any]:
    row = asdict(result.comparison)
    for name in ("first", "second"):
        del row[name]
    times = zip(("first", "second"), _timings(result.timings), strict=True)
    return {**row, "answer": result.comparison.answer, **dict(times)}


def _timings(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    wanted = ("median_us", "p10_us", "p90_us", "n", "sm_clock_mhz", "throttle")
    return [{name: getattr(timing, name) for name in wanted} for timing in timings]
