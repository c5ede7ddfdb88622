"""A second operation, Y = factor * X, as small as one can be: it shows what an operation has to give."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evoflash.errors import UsageError
from evoflash.numerics import Bits, decode, encode, stream_of
from evoflash.operation import EmulatedRun, InputNames, Loop, Operation, Work
from evoflash.operations.expectations import every_row, expected_rows
from evoflash.workload import ExpectedOutputs, Relation, Rows, Sample, TensorSpec, Thresholds

FACTOR = 0.75


@dataclass(frozen=True, slots=True)
class CompileKey:
    """A kernel is compiled for a type; rows and columns are run-time arguments."""

    dtype: str
    arch: str
    operation: ClassVar[str] = "scaled_copy"

    def __str__(self) -> str:
        return f"dtype={self.dtype},{self.arch}"

    def names(self) -> dict[str, Any]:
        return {"dtype": self.dtype}


@dataclass(frozen=True, slots=True)
class Workload:
    """X and Y are (rows, columns)."""

    rows: int
    columns: int
    dtype: str = "fp16"
    operation: ClassVar[str] = "scaled_copy"

    def __str__(self) -> str:
        return f"scaled_copy:rows={self.rows},columns={self.columns},dtype={self.dtype}"

    @property
    def precision(self) -> str:
        return self.dtype

    @property
    def flops(self) -> int:
        return self.rows * self.columns

    @property
    def reported_flops(self) -> int:
        return self.flops

    @property
    def bytes_moved(self) -> int:
        return 4 * self.rows * self.columns

    @property
    def extents(self) -> tuple[int, ...]:
        return self.rows, self.columns

    def compile_key(self, arch: str) -> CompileKey:
        return CompileKey(self.dtype, arch)

    def names(self) -> dict[str, int]:
        return {"rows": self.rows, "columns": self.columns}


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """X as 16-bit patterns."""

    name: str
    x: Bits

    @property
    def tensors(self) -> dict[str, Bits]:
        return {"X": self.x}


def parse(text: str) -> Workload:
    """`rows=64,columns=128` and perhaps `dtype=bf16`."""
    words = dict(word.partition("=")[::2] for word in text.split(","))
    if not {"rows", "columns"} <= words.keys() <= {"rows", "columns", "dtype"}:
        raise UsageError(f"scaled_copy '{text}': write rows=,columns= and perhaps dtype=.")
    return Workload(int(words["rows"]), int(words["columns"]), words.get("dtype", "fp16"))


def tensors(workload: Workload) -> tuple[TensorSpec, ...]:
    shape, axes, long = (workload.rows, workload.columns), ("row", "col"), ("rows", "columns")
    return (
        TensorSpec("X", "input", shape, axes, long, workload.dtype, spread=(0, 1)),
        TensorSpec("Y", "rows", shape, axes, long, workload.dtype, spread=(0, 1)),
    )


def arguments(
    workload: Workload,
    addresses: Mapping[str, int],
    strides: Mapping[str, Sequence[int]],
    *,
    workspace: int = 0,
) -> tuple[np.generic, ...]:
    assert not workspace, "no kernel of this operation asks for scratch"
    return (
        *(np.uint64(addresses[name]) for name in "XY"),
        *(np.int32(number) for number in (workload.rows, workload.columns)),
        *(np.int64(strides[name][0]) for name in "XY"),
        np.float32(FACTOR),
    )


def draw(name: str, workload: Workload, *, seed: int) -> Inputs:
    if name not in INPUTS.ordinary | {"ones"}:
        raise UsageError(f"no input is called '{name}'.")
    rng = stream_of(seed, name, workload)
    values = rng.standard_normal((workload.rows, workload.columns), dtype=np.float32)
    return Inputs(name, encode(np.ones_like(values) if name == "ones" else values, workload.dtype))


def timed_inputs(workload: Workload, *, sets: int, rng: np.random.Generator) -> list[Inputs]:
    shape = workload.rows, workload.columns
    drawn = (rng.standard_normal(shape, dtype=np.float32) for _ in range(sets))
    return [Inputs("normal", encode(x, workload.dtype)) for x in drawn]


def sample(workload: Workload, rng: np.random.Generator) -> Sample:
    whole = every_row(workload)
    return Sample(whole.groups, np.unique(rng.integers(0, workload.rows, 64)))


def expect(workload: Workload, inputs: Inputs, *, where: Sample) -> ExpectedOutputs:
    x = decode(inputs.x[where.rows], workload.dtype)[None]  # there is one group
    right = FACTOR * x.astype(np.float64)
    rows = expected_rows(right, np.float32(FACTOR) * x, dtype=workload.dtype)
    return ExpectedOutputs(where, {"Y": rows}, {})


def relations(inputs: Inputs, workload: Workload, *, seed: int) -> Iterator[Relation]:
    """Rows that change places in X change places in Y."""
    order = np.random.default_rng(seed).permutation(workload.rows)
    exchanged = Inputs(f"{inputs.name}, rows exchanged", inputs.x[order])
    yield Relation("exchanged rows", Rows((inputs,), order), Rows((exchanged,)))


def thresholds() -> dict[str, Thresholds]:
    numbers = {"honest_floor": 1e-5, "lse_absolute": 0.0, "lse_relative": 0.0, "honest_factor": 2.0}
    return {
        "fp16": Thresholds(rel_l2=4e-4, max_over_rms=5e-3, **numbers),
        "bf16": Thresholds(rel_l2=3e-3, max_over_rms=3e-2, **numbers),
    }


def check_workloads(keys: Sequence[CompileKey]) -> tuple[Workload, ...]:
    return tuple(Workload(*shape, key.dtype) for shape in ((1, 8), (37, 136), (130, 64)) for key in keys)


def hidden_workloads(keys: Sequence[CompileKey], *, seed: int) -> tuple[Workload, ...]:
    rows, groups_of_columns = (int(n) for n in np.random.default_rng(seed).integers(2, 60, 2))
    return tuple(Workload(rows, 8 * groups_of_columns, key.dtype) for key in keys)


def preflight_runs(key: CompileKey, loop: Loop) -> tuple[EmulatedRun, ...]:
    long, short, odd = (
        Workload(rows, columns, key.dtype)
        for rows, columns in ((2 * loop.rows, 4 * loop.keys), (2 * loop.rows, loop.keys), (loop.rows + 1, 40))
    )
    return (
        EmulatedRun(long, "normal", "lazy", "fifo", is_counted=True),
        EmulatedRun(short, "normal", "lazy", "fifo", is_counted=True),
        EmulatedRun(odd, "ones", "random", "random", is_strided=True),
    )


def work(workload: Workload, loop: Loop) -> Work:
    steps = (-(-workload.columns // loop.keys),) * -(-workload.rows // loop.rows)
    return Work(steps, copies=1, batch=1)


def distance(a: Workload, b: Workload) -> float:
    return abs(float(np.log2(a.bytes_moved / b.bytes_moved))) + (a.dtype != b.dtype)


def interface_names() -> dict[str, Any]:
    return {"factor": FACTOR, "version": 1}


def launcher_names(maps: Iterable[Any]) -> dict[str, Any]:
    return {"factor": FACTOR}


INPUTS = InputNames(
    small=("normal", "ones"),
    at_size=("normal", "ones"),
    scheduled=("normal", "ones"),
    after_timing="normal-after",
    ordinary=frozenset({"normal", "normal-after"}),
)
OPERATION = Operation(
    name="scaled_copy",
    parse=parse,
    compile_key=CompileKey,
    probe=Workload(64, 64),
    tensors=tensors,
    groups="groups",
    arguments=arguments,
    inputs=INPUTS,
    draw=draw,
    timed_inputs=timed_inputs,
    sample=sample,
    expect=expect,
    relations=relations,
    thresholds=thresholds,
    check_workloads=check_workloads,
    hidden_workloads=hidden_workloads,
    preflight_runs=preflight_runs,
    work=work,
    distance=distance,
    interface=Path(__file__).with_name("interface.h.j2"),
    interface_names=interface_names,
    launcher=Path(__file__).with_name("launcher.j2"),
    launcher_names=launcher_names,
)
