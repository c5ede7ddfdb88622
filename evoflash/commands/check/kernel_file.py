"""A user's own kernel and its launch, as `evoflash check` knows them; kernel_header.py reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import TemplateError, UsageError
from evoflash.evaluation import Launch, TensorMap
from evoflash.families.expression import Expression
from evoflash.operation import Loop, Workload

DTYPES = ("f16", "bf16", "f32", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
FILLS = ("random", "zeros", "arange", "poison")

Three = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: an array (it has a `shape`) or its map, a map of another one, or a scalar."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None = None
    fill: str | float = "random"  # a name of FILLS, or the number in every element
    is_output: bool = False
    map: TensorMap | None = None  # what the kernel gets instead of the array's address
    value: float = 0  # an int for integer types


@dataclass(frozen=True, slots=True, eq=False)
class KernelFile:
    """A .cu and its launch. With a `loop` it follows evoflash's attention ABI, else it has `arguments`."""

    path: Path
    text: str
    entry: str
    grid: tuple[Expression, Expression, Expression]
    block: tuple[Expression, Expression, Expression]
    smem: Expression
    cluster: Three
    resident: bool  # its blocks wait for one another
    workspace: Expression
    arguments: tuple[Argument, ...]
    loop: Loop | None
    problem: str  # what an attention kernel is for, where the comment says so
    maps: tuple[TensorMap, ...]  # an attention kernel's first arguments

    def launch(self, workload: Workload | None = None) -> Launch:
        """The launch, on a workload where it is attention. UsageError when an expression fails."""
        names = _names(workload) if workload else {}
        try:
            return Launch(
                self.entry,
                grid=_three(self.grid, names),
                block=_three(self.block, names),
                smem_bytes=self.smem(names),
                workspace_bytes=self.workspace(names),
                cluster=self.cluster,
                resident=self.resident,
                maps=self.maps,
            )
        except TemplateError as error:
            raise UsageError(str(error)) from None


def _three(expressions: tuple[Expression, Expression, Expression], names: Mapping[str, Any]) -> Three:
    x, y, z = (expression(names) for expression in expressions)
    return x, y, z


def _names(workload: Workload) -> dict[str, Any]:
    return {**workload.names(), **workload.compile_key("").names()}
