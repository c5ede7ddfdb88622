"""A kernel's hardware counters as records, which limit binds it by them, and how far it is from it.

Reads no counters: gpu/counters.py does. A unit busy for more than 60 % of a launch binds it, as Nsight
Compute's guide has it for the speed of light. Where none is, the kernel waits: for its launch, where the SMs
have no blocks for most of the time, or else for latencies that its warps do not cover.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

_BUSY = 0.6  # https://docs.nvidia.com/nsight-compute/ProfilingGuide, "Speed of light": what is above binds
_FULL = 0.5  # of the time with a block on the SMs, the mean over them; below that the launch is too small
_SHORT_US = 3.0  # a launch takes about that long, whatever it does


@dataclass(frozen=True, slots=True)
class LaunchCounters:
    """Of one launch. Shares are 0 to 1, of what the GPU can do in the launch's time at its clock then."""

    kernel: str
    us: float  # under the profiler, with cold caches
    sm_ghz: float
    grid: int  # blocks
    block: int  # threads
    registers: int  # of a thread
    shares: Mapping[str, float]  # by the names of UNITS, busiest first; what was not read is missing
    active_sm: float  # share of the time in which an SM had a block, the mean over SMs
    warps: float  # of a scheduler, the mean while it had any
    cycles_per_instruction: float  # of a warp, between two instructions that it issues
    stalls: Mapping[str, float]  # what warps wait for, by Nsight Compute's names, most first: 0 to 1
    instructions: Mapping[str, int]  # warp instructions by opcode, most first

    @property
    def limit(self) -> str:
        """The name of what binds: one of UNITS, `launch` or `latency`."""
        unit = max(self.shares, key=self.shares.__getitem__, default="")
        if unit and self.shares[unit] >= _BUSY:
            return unit
        return "launch" if self.us < _SHORT_US or self.active_sm < _FULL else "latency"

    @property
    def headroom(self) -> float | None:
        """How many times as fast it can become before its busiest unit is full; None where none was read."""
        most = max(self.shares.values(), default=0.0)
        return max(1.0, 1 / most) if most > 0 else None

    @property
    def says(self) -> str:
        """What binds, and how far from it the launch is."""
        limit, room = self.limit, self.headroom
        if limit in self.shares:
            name, share = UNITS[limit], f"{self.shares[limit]:.0%} of what is possible there"
            return f"Bound by {name}: {share}, so at most {room:.2f} times as fast with the same work for it."
        top = sorted(self.shares.items(), key=lambda item: -item[1])[:2]
        busiest = " and ".join(f"{UNITS[name]} {share:.0%}" for name, share in top) or "not read"
        before = f", so at most {room:.1f} times as fast before one is full" if room else ""
        if limit == "launch":
            why = f"SMs have blocks for {self.active_sm:.0%} of {self.us:.1f} us"
            return f"Bound by its launch: {why}; the busiest units are {busiest}{before}."
        stall = next(iter(self.stalls), "")
        waits = f", most often for {STALLS.get(stall, stall)}" if stall else ""
        return (
            f"Bound by latency: no unit is full ({busiest}{before}). A scheduler has {self.warps:.1f} warps; "
            f"each issues an instruction in {self.cycles_per_instruction:.1f} cycles and waits{waits}."
        )

    @property
    def remedy(self) -> str:
        """What would make it faster, in a sentence; where it waits, by what it waits for."""
        stall = next(iter(self.stalls), "") if self.limit == "latency" else ""
        return _AGAINST_WAITS.get(stall, _REMEDIES[self.limit])

    def as_dict(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in ("limit", "headroom", "says", "remedy")}
        return {**asdict(self), **said}

    @classmethod
    def of_dict(cls, found: Mapping[str, Any]) -> Self:
        """What as_dict() made. TypeError or KeyError where it is something else."""
        return cls(**{field.name: found[field.name] for field in fields(cls)})


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """The launches of one call of a kernel, by workload."""

    launches: Mapping[str, Sequence[LaunchCounters]]
    made: str  # UTC, ISO 8601
    tool: str  # the profiler's name and version

    @property
    def longest(self) -> LaunchCounters:
        """The longest launch on the slowest workload: what bounds it bounds the kernel."""
        calls = self.launches.values()
        slowest = max(calls, key=lambda launches: sum(launch.us for launch in launches))
        return max(slowest, key=lambda launch: launch.us)

    def as_dict(self) -> dict[str, Any]:
        calls = {workload: [each.as_dict() for each in found] for workload, found in self.launches.items()}
        return {"limit": self.longest.limit, "made": self.made, "tool": self.tool, "launches": calls}

    @classmethod
    def of_dict(cls, found: Mapping[str, Any]) -> Self:
        """What as_dict() made. TypeError, KeyError or AttributeError where it is something else."""
        calls = {
            workload: tuple(LaunchCounters.of_dict(each) for each in launches)
            for workload, launches in found["launches"].items()
        }
        return cls(calls, found["made"], found["tool"])


UNITS = {
    "dram": "DRAM",
    "l2": "the L2 cache",
    "shared": "shared memory and L1",
    "tensor": "tensor cores",
    "exp": "special-function units",
    "issue": "instruction issue",
}
_REMEDIES = {
    "dram": "Only fewer bytes would help: less read twice, smaller types.",
    "l2": "Larger tiles, or clusters that share what they read, take load off the L2 cache.",
    "shared": "Wider loads, operands in registers and no bank conflicts take load off shared memory.",
    "tensor": "It is near what the tensor cores can do: only less work would help.",
    "exp": "Fewer exponentials: skipped rescaling, polynomials on the FP32 units.",
    "issue": "Fewer instructions: wider or bulk copies, unrolled loops without address arithmetic.",
    "launch": "More blocks or splits that fill the SMs, a persistent grid, or a launch that begins early.",
    "latency": "More warps on an SM, more copies in flight, independent chains of instructions.",
}
_AGAINST_WAITS = {
    "long_scoreboard": "More copies in flight, asked for earlier; more warps on an SM; less read twice.",
    "short_scoreboard": "Fewer trips through shared memory, asked for earlier; more warps on an SM.",
    "mio_throttle": "Fewer and wider accesses of shared memory; operands that stay in registers.",
    "barrier": "Fewer barriers, or barriers of fewer warps; warps that do not wait for one another.",
    "membar": "Fewer fences; sums that leave through a cluster's shared memory in place of global memory.",
    "wait": "Shorter chains of instructions that need one another; more warps on an SM.",
    "no_instruction": "Shorter code: less unrolling, fewer copies of the loop.",
    "gmma": "Work beside the multiplication: overlapped softmax, two consumers that take turns.",
}
STALLS = {
    "long_scoreboard": "global or L2 memory",
    "short_scoreboard": "shared memory or a special-function unit",
    "barrier": "a barrier of its block",
    "wait": "an instruction of fixed latency",
    "math_pipe_throttle": "a busy arithmetic unit",
    "mio_throttle": "the queue of shared memory",
    "lg_throttle": "the queue of global memory",
    "no_instruction": "code that was not cached",
    "imc_miss": "a constant that was not cached",
    "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher",
    "membar": "a fence",
    "sleeping": "the end of a sleep",
    "gmma": "the tensor cores' results",
    "drain": "its last writes",
    "tex_throttle": "the queue of the texture unit",
    "not_selected": "another warp, which issued instead",
}
