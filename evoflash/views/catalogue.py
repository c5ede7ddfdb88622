"""Shows what can be named in an option: GPUs, problems, kernel families. Looks nothing up."""

import textwrap
from collections.abc import Callable, Sequence

from rich.console import Console

from evoflash import operation as registry
from evoflash.app.catalogue import FamilySummary, KnownGpu, NamedProblem
from evoflash.specs import GpuSpec
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import tell


def print_gpus(found: Sequence[KnownGpu], console: Console) -> None:
    """A row for each, the one present marked."""

    def figures(name: str, figure: Callable[[GpuSpec], str], rank: int) -> Column:
        return Column(name, tuple(figure(each.spec) for each in found), rank)

    columns = [
        Column("", tuple("*" if each.is_present else "" for each in found), is_number=False),
        Column("name", tuple(each.spec.name for each in found), is_number=False),
        Column("arch", tuple(each.spec.arch for each in found), is_number=False),
        figures("SMs", lambda spec: str(spec.sm_count), 1),
        figures("MHz", lambda spec: str(spec.clock_mhz), 5),
        figures("smem/block", lambda spec: str(spec.smem_per_block), 4),
        figures("L2 MB", lambda spec: f"{spec.l2_bytes / 2**20:.0f}", 6),
        figures("GB/s", lambda spec: f"{spec.dram_gbps:.0f}", 3),
        figures("tensor TFLOPS", lambda spec: f"{_tensor_tflops(spec):.0f}", 2),
    ]
    is_here = any(each.is_present for each in found)
    print_table(columns if is_here else columns[1:], console)
    none = "none of them is present: searches run in the emulator, times are estimates."
    print("* present" if is_here else none)


def _tensor_tflops(spec: GpuSpec) -> float:
    return spec.sm_count * spec.tensor_flops_per_clk * spec.clock_mhz / 1e6


def print_problems(found: Sequence[NamedProblem], console: Console) -> None:
    """A row for each, and what may stand behind a name."""
    sizes = [each.workload.names() for each in found]
    columns = [
        Column("name", tuple(each.name for each in found), is_number=False),
        Column("batch", tuple(str(size["batch"]) for size in sizes), 1),
        Column("heads", tuple(f"{size['heads']}/{size['kv_heads']}" for size in sizes), 1),
        Column("queries", tuple(str(size["seq_q"]) for size in sizes)),
        Column("keys", tuple(str(size["seq_kv"]) for size in sizes)),
        Column("what it is", tuple(each.what for each in found), 2, is_number=False, wraps_at=28),
    ]
    print_table(columns, console)
    print()
    tell("\n\n".join(operation.problem_help for operation in registry.all_in_words()))


def describe_families(found: Sequence[FamilySummary], columns: int, *, explain: bool) -> str:
    """Each family's genes and checks; with `explain` what each gene is, and each check in words."""
    width, describe_one = max(40, min(columns, 120)), _explanation if explain else _block
    return "\n\n".join(describe_one(each, width) for each in found)


def _block(found: FamilySummary, width: int) -> str:
    """A family's genes with their values, and how many points they span."""
    column = max(map(len, found.genes)) + 4
    lines = _wrap_lines(_title(found), width)
    for name, values in found.genes.items():
        lines += _wrap_lines(f"  {name}".ljust(column) + " ".join(map(str, values)), width, column)
    checks = f"  {found.points} points before {len(found.checks)} checks: {', '.join(found.checks)}"
    return "\n".join([*lines, *_wrap_lines(checks, width)])


def _title(found: FamilySummary) -> str:
    family = found.family
    return f"{family.name} (version {family.version}, {', '.join(family.arch)}): {family.summary}"


def _wrap_lines(text: str, width: int, indent: int = 4) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def _explanation(found: FamilySummary, width: int) -> str:
    """Every gene with its values, the default first, what it is and when it is active; every check."""
    notes, conditions = found.notes, found.conditions
    lines = [*_wrap_lines(_title(found), width), "", "genes (the first value is the default):"]
    for name, values in found.genes.items():
        lines += _wrap_lines(f"  {name}: {', '.join(map(str, values))}", width)
        if name in notes:
            lines += _wrap_lines(f"      {notes[name]}", width, 6)
        if name in conditions:
            lines += _wrap_lines(f"      only where {conditions[name]}", width, 6)
    lines += ["", "checks (what a genome must fulfil before it is compiled):"]
    for name, condition in found.checks.items():
        lines += _wrap_lines(f"  {name.replace('_', ' ')}: {condition}", width, 6)
    return "\n".join(lines)
