"""What must be computed: a problem is one workload of an operation, or several; pure data and its text."""

from dataclasses import dataclass

from evoflash import operations
from evoflash.errors import UsageError
from evoflash.operation import CompileKey, Workload


@dataclass(frozen=True, slots=True)
class Problem:
    """The workloads that a kernel is ranked on, by the geometric mean of its times."""

    workloads: tuple[Workload, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.workloads))

    @property
    def operation(self) -> str:
        """The name of the operation."""
        return self.workloads[0].operation

    def compile_keys(self, arch: str) -> tuple[CompileKey, ...]:
        """Distinct keys in the order of the workloads; a genome is built once for each."""
        return tuple(dict.fromkeys(w.compile_key(arch) for w in self.workloads))


def parse_problem(text: str) -> Problem:
    """`mission`, `s2k_d64,causal,dtype=bf16`, `b=4,h=32,hkv=8,s=4096,d=128`, or several joined by `+`."""
    problem = Problem(tuple(parse_workload(part) for part in text.split("+")))
    if len({workload.operation for workload in problem.workloads}) > 1:
        raise UsageError(f"'{text}' mixes operations: a kernel computes one of them.")
    return problem


def parse_workload(text: str) -> Workload:
    """One workload of the default operation, or of another one whose name stands before a colon.

    UsageError says what is missing.
    """
    name, colon, rest = text.partition(":")
    if not colon:
        return operations.default().parse(text)
    return operations.load(name.strip()).parse(rest)
