"""Kernels made of snippets (kernels/threads.toml and memory.toml), one for each case. Runs none.

A snippet is the body of `kernel(const u32* in, u32* out, u32* cells)`, which knows `thread`, `smem` and what
prelude.cu has; $axis stands for the case's value on that axis (${axis}0 and ${axis}1 for its words),
$function for the primitive's name. Other keys, with their defaults: threads = 32, smem = 4096 (bytes),
cluster = 1 (blocks), clusters = 1, out = 1024 (words), cells = "index" (how the words of global scratch
begin: 0, 1, 2 ..., or "float": as those floats), first = "" (another such body, launched before; the kernel
is then launched as one that may begin before that has ended).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from evoflash.launch import LaunchConfig
from evoflash.trust.conformance.cases import (
    UNWRITTEN,
    Case,
    Label,
    Mode,
    Module,
    Pointer,
    Primitive,
    Trial,
    primitives,
)

FOLDER = Path(__file__).with_name("kernels")
KERNELS_A_MODULE = 40
_IN_WORDS, _CELLS = 4096, 1024


@dataclass(frozen=True, slots=True)
class Snippet:
    """One case's bodies with its values put in, and its launch."""

    label: Label
    bodies: tuple[str, ...]
    threads: int
    smem: int
    cluster: int
    clusters: int
    out: int
    cells: str

    def text(self, entry: str) -> str:
        """Its kernels: entry_0, and entry_1 where there is another."""
        return "\n".join(self._kernel(f"{entry}_{i}", body) for i, body in enumerate(self.bodies))

    def _kernel(self, entry: str, body: str) -> str:
        return f"""
// {self.label.primitive}: {self.label.case}
extern "C" __global__ void __launch_bounds__({self.threads}, 1)
{entry}(const u32* in, u32* out, u32* cells) {{
  const int thread = threadIdx.x;
  const u32 smem = ef::smem_base();
  {body.strip()}
}}
EF_EXPORT_KERNEL({entry})
"""

    def trial(self, entry: str) -> Trial:
        """Its launches, on random words."""
        shape = ((self.cluster * self.clusters, 1, 1), (self.threads, 1, 1), self.smem)
        launches = tuple(
            LaunchConfig(f"{entry}_{i}", *shape, cluster=(self.cluster, 1, 1), dependent=i > 0)
            for i in range(len(self.bodies))
        )
        cells = np.arange(_CELLS, dtype=np.uint32)
        return Trial(
            cases=(self.label,),
            launches=launches,
            arguments=(Pointer("in"), Pointer("out"), Pointer("workspace")),
            inputs={"in": _words()},
            results={
                "out": np.full(self.out, UNWRITTEN, np.uint32),
                "workspace": cells.astype(np.float32).view(np.uint32) if self.cells == "float" else cells,
            },
        )


@cache
def templates() -> dict[str, dict[str, Any]]:
    """The snippets as they stand in the files, by the name of the table's entry."""
    found: dict[str, dict[str, Any]] = {}
    for name in ("threads", "memory"):
        found |= tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return found


def modules(arch: str) -> Iterator[Module]:
    """Texts of KERNELS_A_MODULE kernels each, for what a GPU of that architecture has."""
    here = [entry for entry in primitives() if entry.name in templates() and entry.runs_on(arch)]
    # Apart by architecture: what one needs to be parsed is not paid for by all.
    for first in dict.fromkeys(entry.arch for entry in here):
        cases = [(entry, case) for entry in here if entry.arch == first for case in entry.cases()]
        for number, begin in enumerate(range(0, len(cases), KERNELS_A_MODULE)):
            chosen = [snippet(*each) for each in cases[begin : begin + KERNELS_A_MODULE]]
            yield _module(f"snippets_{first}_{number}", chosen)


def snippet(primitive: Primitive, case: Case) -> Snippet:
    """The entry's snippet for one of its cases."""
    template = templates()[primitive.name]
    values = {"function": case.function}
    for axis, mode in case.modes.items():
        words = _word(mode).split()
        values |= {axis: _word(mode), **{f"{axis}{i}": word for i, word in enumerate(words)}}

    def fill(value: object) -> str:
        return Template(str(value)).substitute(values)

    return Snippet(
        label=Label.of(primitive, case),
        bodies=tuple(fill(template[key]) for key in ("first", "kernel") if key in template),
        threads=int(fill(template.get("threads", 32))),
        smem=int(fill(template.get("smem", 4096))),
        cluster=int(fill(template.get("cluster", 1))),
        clusters=int(fill(template.get("clusters", 1))),
        out=int(fill(template.get("out", 1024))),
        cells=template.get("cells", "index"),
    )


def _module(name: str, chosen: list[Snippet]) -> Module:
    prelude = (FOLDER / "prelude.cu").read_text(encoding="utf-8")
    text = prelude + "".join(each.text(f"case{i}") for i, each in enumerate(chosen))
    labels = tuple(each.label for each in chosen)
    return Module(name, text, labels, lambda: (each.trial(f"case{i}") for i, each in enumerate(chosen)))


def _word(mode: Mode) -> str:
    return str(mode).lower() if isinstance(mode, bool) else str(mode)


@cache
def _words() -> np.ndarray[Any, Any]:
    """Random bits, the same each time. No lane's word equals another's."""
    return np.random.default_rng(1).integers(0, 1 << 32, _IN_WORDS, dtype=np.uint32)
