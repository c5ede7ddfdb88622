"""What a record of run.py says: peers over ours, FlashAttention-3 bridged, targets, the mean.

Times nothing and writes nothing; scripts/pages/h200.py shows it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scripts.peers.read_only import NAME as READ_ONLY
from scripts.peers.read_only import bytes_read
from scripts.peers.rows import workload_of

BRIDGED = "FA3, bridged"
LATER = ", timed later"  # of a library that our kernel met in another run than the others
NAMES = {
    "sdpa_cudnn": "cuDNN",
    "sdpa_flash": "FA2",
    "triton": "Triton",
    "fa3": "FA3",
    "fa4": "FA4",
    "fa4_tuned": "FA4, tuned",
    READ_ONLY: "read-only",
}
SHORT = ("mission", "short128", "short256")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A peer's time over ours, with its interval; above 1 ours is the faster."""

    peer: str
    us: float  # the peer's
    ratio: float
    low: float
    high: float

    def times(self, factor: float, peer: str) -> "Ratio":
        """Of a peer that takes `factor` of this one's time."""
        low, high = self.low * factor, self.high * factor
        return Ratio(peer, self.us * factor, self.ratio * factor, low, high)

    def __str__(self) -> str:
        return f"{self.ratio:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class State:
    """A row in one power state."""

    protocol: str
    us: float
    peers: tuple[Ratio, ...]  # the hardest first; never empty
    bandwidth: Ratio | None  # what the read bandwidth allows, where the row is a decoding step


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table."""

    row: str
    states: tuple[State, ...]  # the ranked one first
    record: Mapping[str, Any]

    @property
    def judged(self) -> Ratio:
        """What the target is about."""
        return self.states[0].bandwidth or self.states[0].peers[0]

    @property
    def is_met(self) -> str:
        """'yes', 'no', or 'unclear' where the interval holds the target."""
        found, wanted = self.judged, target(self.row)
        if found.low >= wanted:
            return "yes"
        return "no" if found.high < wanted else "unclear"


def target(row: str) -> float:
    """What is aimed at: the fastest peer's time over ours; of a decoding step, the share of the bandwidth."""
    workload = workload_of(row)
    if workload.seq_q == 1:
        return 0.97
    if row.split(",")[0] in SHORT:
        return 1.25
    return 1.05 if workload.head_dim == 64 else 1.00


def line_of(record: Mapping[str, Any], anchor: Mapping[str, Any]) -> Line | None:
    """A row's figures; None where it has none: nothing was timed, ours is wrong, or no peer is right."""
    if record.get("failure") or "ours" not in record:
        return None
    timings = record["timings"][record["ours"]["id"]]
    states = [_state(record, timing, anchor) for timing in timings]
    return Line(record["row"], tuple(states), record) if all(state.peers for state in states) else None


def _state(record: Mapping[str, Any], timing: Mapping[str, Any], anchor: Mapping[str, Any]) -> State:
    protocol = timing["protocol"]
    found = {
        each["first"]: _ratio(record, each)
        for each in record["comparisons"]
        if each["protocol"] == protocol and each["first"] not in record["wrong"]
    }
    bandwidth = found.pop(READ_ONLY, None)
    if bandwidth is not None:
        workload = workload_of(record["row"])
        share = workload.bytes_moved / bytes_read(workload)
        bandwidth = bandwidth.times(share, bandwidth.peer)
    peers = [*found.values(), *_bridged(found, anchor.get(protocol.removeprefix("final-"), {}))]
    return State(protocol, timing["median_us"], tuple(sorted(peers, key=lambda p: p.ratio)), bandwidth)


def _ratio(record: Mapping[str, Any], found: Mapping[str, Any]) -> Ratio:
    name = found["first"]
    timings = record["timings"][name]
    us = next(timing["median_us"] for timing in timings if timing["protocol"] == found["protocol"])
    return Ratio(NAMES.get(name, name), us, found["ratio"], found["low"], found["high"])


def _bridged(found: Mapping[str, Ratio], anchor: Mapping[str, float]) -> list[Ratio]:
    """FlashAttention-3 by cuDNN's time in this run and the two's ratio on another day, in the same state."""
    ratio = bridging_ratio(found, anchor)
    return [] if ratio is None else [found["sdpa_cudnn"].times(ratio, BRIDGED)]


def bridging_ratio(found: Iterable[str], anchor: Mapping[str, float]) -> float | None:
    """FlashAttention-3 over cuDNN on another day; None where it ran, cuDNN did not, or nobody knows."""
    if "fa3" in found or "sdpa_cudnn" not in found or "fa3_best" not in anchor:
        return None
    return anchor["fa3_best"] / anchor["sdpa_cudnn"]


def mean(lines: Sequence[Line], *, state: int = 0) -> float:
    """The geometric mean of peer best over ours; every row counts once, by its peers: decode8k, too."""
    ratios = [line.states[state].peers[0].ratio for line in lines if len(line.states) > state]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def least(lines: Sequence[Line]) -> Line:
    """The line whose fastest peer comes nearest to ours, or is the furthest ahead; there must be one."""
    return min(lines, key=lambda line: line.states[0].peers[0].ratio)


# ---- several files


def merged(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Records of parts as one: of a row that several have, the first with figures."""
    rows: dict[str, Mapping[str, Any]] = {}
    for row in (row for part in parts for row in part["rows"]):
        if row["row"] not in rows or rows[row["row"]].get("failure"):
            rows[row["row"]] = row
    return {
        **parts[0],
        "took_s": max(_each(parts, "took_s")),
        "rows": list(rows.values()),
        "command": "; ".join(_each(parts, "command")),
        "seed": ", ".join(map(str, _each(parts, "seed"))),
    }


def _each(parts: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """The parts' values of that name; a part that was joined before may have a list of them."""
    values = (part[name] for part in parts)
    return [each for value in values for each in (value if isinstance(value, list) else [value])]


def with_later(line: Line, later: Line | None) -> Line:
    """The line with the libraries that the same kernel met in a later run alone, by their ratios there."""
    if later is None:
        return line
    if later.record["ours"]["id"] != line.record["ours"]["id"]:
        raise ValueError(f"{line.row}: the later run timed another kernel")
    others = {state.protocol: state.peers for state in later.states}
    return replace(line, states=tuple(_joined(each, others.get(each.protocol, ())) for each in line.states))


def _joined(state: State, others: Sequence[Ratio]) -> State:
    known = {peer.peer for peer in state.peers}
    new = [replace(each, peer=f"{each.peer}{LATER}") for each in others if each.peer not in known]
    return replace(state, peers=tuple(sorted((*state.peers, *new), key=lambda p: p.ratio)))
