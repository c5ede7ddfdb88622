"""Which limit binds a kernel by its counters, and how far from it it is. Reads no counters by itself.

A unit that is busy for more than 60 % of the time binds, as Nsight Compute's guide has it for the speed of
light; where none is, the kernel waits: for a grid that does not fill the GPU, or for latencies that too few
warps cover.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_BUSY = 0.6  # https://docs.nvidia.com/nsight-compute/ProfilingGuide, "Speed of light": what is above is bound
_FULL = 0.5  # of the SMs' time with a block on them; below that the grid or its tail leaves them idle
_SHORT_US = 3.0  # a launch takes about that long, whatever it does


@dataclass(frozen=True, slots=True)
class LaunchCounters:
    """Of one launch of one kernel. Shares are 0 to 1 of what the GPU can do at its clock of that moment."""

    kernel: str
    us: float
    sm_ghz: float
    registers: int
    shares: Mapping[str, float]  # dram, l2, shared, tensor, issue; one that was not read is missing
    active_sm: float  # share of the launch's time in which an SM had a block, the mean over SMs
    warps: float  # active warps of a scheduler, the mean
    cycles_per_instruction: float  # of a warp, between two instructions that it issues
    stalls: Mapping[str, float]  # by Nsight Compute's names, largest first: share of samples
    instructions: Mapping[str, int]  # warp instructions by opcode, largest first

    @property
    def limit(self) -> str:
        """The name of what binds: a unit, `launch`, `grid` or `latency`."""
        unit = max(self.shares, key=self.shares.__getitem__, default="")
        if unit and self.shares[unit] >= _BUSY:
            return unit
        if self.us < _SHORT_US:
            return "launch"
        return "grid" if self.active_sm < _FULL else "latency"

    @property
    def says(self) -> str:
        """What binds, in a sentence, and how far from it the kernel is."""
        limit = self.limit
        top = sorted(self.shares.items(), key=lambda item: -item[1])[:2]
        busiest = " and ".join(f"{_NAMES[name]} {share:.0%}" for name, share in top)
        if limit in self.shares:
            return f"{_NAMES[limit]} binds: it is at {self.shares[limit]:.0%} of what it can do."
        if limit == "launch":
            return f"The launch binds: {self.us:.2f} us in all, the busiest units are {busiest}."
        if limit == "grid":
            return f"The grid binds: SMs have blocks for {self.active_sm:.0%} of the time; {busiest}."
        stall = next(iter(self.stalls), "")
        waits = f", most often for {_STALLS.get(stall, stall)}" if stall else ""
        return (
            f"Latency binds: no unit is busy ({busiest}). A scheduler has {self.warps:.1f} warps, each "
            f"issues one instruction in {self.cycles_per_instruction:.1f} cycles and waits{waits}."
        )

    @property
    def remedy(self) -> str:
        """What would make it faster, in a sentence."""
        return _REMEDIES[self.limit]

    def as_dict(self) -> dict[str, Any]:
        """All fields, and what they say."""
        return {**asdict(self), "limit": self.limit, "says": self.says, "remedy": self.remedy}


_NAMES = {
    "dram": "DRAM",
    "l2": "the L2 cache",
    "shared": "shared memory and L1",
    "tensor": "the tensor cores",
    "issue": "instruction issue",
}
_REMEDIES = {
    "dram": "Only fewer bytes would help: each is read once at this rate.",
    "l2": "Larger tiles or clusters that share what they read take load off the L2 cache.",
    "shared": "Wider loads, operands in registers, and no bank conflicts take load off shared memory.",
    "tensor": "It is near what the tensor cores can do: only less work would help.",
    "issue": "Fewer instructions: wider copies, bulk copies, unrolled loops without address arithmetic.",
    "launch": "A launch that begins early, or one launch in place of two.",
    "grid": "Smaller tiles or more splits fill more SMs.",
    "latency": "More warps on an SM, more copies in flight, independent chains, fewer instructions.",
}
_STALLS = {
    "long_sb": "global or L2 memory",
    "short_sb": "shared memory or a slow unit",
    "barrier": "a barrier of its block",
    "wait": "an instruction of fixed latency",
    "math": "a busy arithmetic unit",
    "mio": "the queue of shared memory",
    "lg": "the queue of global memory",
    "no_inst": "instructions, which come from memory",
    "imc": "a constant that was not cached",
    "branch_resolving": "a branch",
    "dispatch": "the dispatcher",
    "membar": "a fence",
    "sleep": "the end of a sleep",
}
