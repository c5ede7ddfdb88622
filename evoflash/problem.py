"""A problem, one workload of an operation or several, and how it is written. Pure data and its text."""

import math
from dataclasses import dataclass
from functools import cache

from evoflash import operation as registry
from evoflash.errors import UsageError
from evoflash.operation import Operation
from evoflash.specs import GpuSpec
from evoflash.workload import CompileKey, Workload

# Every GPU of evoflash/specs/ multiplies more often than this while a byte comes from memory.
_FLOPS_A_BYTE = 128


@dataclass(frozen=True, slots=True)
class Problem:
    """The workloads that a kernel is ranked on, by the geometric mean of its times."""

    workloads: tuple[Workload, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.workloads))

    @property
    def operation(self) -> str:
        return self.workloads[0].operation

    @property
    def reported_flops(self) -> float:
        """As the field counts them, the geometric mean over the workloads."""
        flops = [workload.reported_flops for workload in self.workloads]
        # One value is itself: through exp and log its last digits would change.
        return flops[0] if len(flops) == 1 else math.exp(math.fsum(map(math.log, flops)) / len(flops))

    @property
    def streamed_bytes(self) -> float | None:
        """The bytes that must be moved, where these bound the time and not the arithmetic; else None."""
        if len(self.workloads) > 1:
            return None
        (workload,) = self.workloads
        return workload.bytes_moved if workload.flops < _FLOPS_A_BYTE * workload.bytes_moved else None

    def compile_keys(self, arch: str) -> tuple[CompileKey, ...]:
        """Distinct keys in the order of the workloads; a genome is built once for each."""
        return tuple(dict.fromkeys(w.compile_key(arch) for w in self.workloads))


def parse_problem(text: str) -> Problem:
    """`mission`, `s2k_d64,causal,dtype=bf16`, `b=4,h=32,hkv=8,s=4096,d=128`, or several joined by `+`."""
    problem = Problem(tuple(parse_workload(part) for part in text.split("+")))
    if len({workload.operation for workload in problem.workloads}) > 1:
        raise UsageError(f"'{text}' mixes operations: a kernel computes one of them.")
    return problem


def check_fits(problem: Problem, gpu: GpuSpec) -> None:
    """UsageError where a workload's tensors are larger than the GPU's memory: it names what would fit."""
    for workload in problem.workloads:
        if gpu.memory_gb and workload.bytes_moved > gpu.memory_bytes:
            fitting = registry.load(workload.operation).fitting
            most = fitting(workload, gpu.memory_bytes) if fitting else ""
            raise UsageError(
                f"the tensors of '{workload}' take {workload.bytes_moved / 2**30:,.0f} GiB, {gpu.name} has "
                f"{gpu.memory_gb} GB: {f'at most {most} fits' if most else 'use a smaller problem'}."
            )


def canonical(text: str | None) -> str | None:
    """The database's key of a problem; None, which asks for any problem, stays None."""
    return None if text is None else str(parse_problem(text))


def parse_workload(text: str) -> Workload:
    """One workload of the default operation, or of another one whose name stands before a colon.

    UsageError says what is missing.
    """
    return operation_in(text).parse(text.partition(":")[2] if ":" in text else text)


def operation_in(text: str) -> Operation:
    """The operation that the text of a workload or problem is about."""
    name, colon, _ = text.partition(":")
    return registry.load(name.strip()) if colon else registry.operation_of_words(text.partition("+")[0])


@cache
def has_lse(workload: str) -> bool:
    """Whether kernels write a number for each row of that workload, attention's logarithm of its sum."""
    tensors = operation_in(workload).tensors(parse_workload(workload))
    return any(tensor.role == "numbers" for tensor in tensors)
