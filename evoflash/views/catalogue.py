"""Shows what can be named in an option: GPUs, problems, kernel families. Looks nothing up."""

import textwrap
from collections.abc import Callable, Sequence

from rich.console import Console

from evoflash.app.catalogue import FamilySummary, KnownGpu, NamedProblem
from evoflash.specs import GpuSpec
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import tell

_BEHIND_A_NAME = """\
Behind a name, or in its place, with commas between:
  b= h= hkv= d=    batch, query heads, key/value heads, head dimension
  s= sq= skv=      both lengths, the query length, the key/value length
  causal           a query sees no later key
  dtype=fp16|bf16  the type of Q, K, V and O
  acc=fp16         scores may be summed in fp16, an accuracy class of its own
Several problems joined by + are ranked by the geometric mean of their times.
For example: mission,causal   s2k_d64,dtype=bf16   b=4,h=32,hkv=8,s=4096,d=128   mission+mission,causal

Attention of 1 to 16 query rows on keys in pages, as engines serve: b=8,h=32,hkv=8,sq=1,skv=4096,d=128,page=16
  page=            keys of a page; skv= is the longest sequence's keys
  lengths=         of each: 4096/15x64, or prod, even, halves, one_long, skewed, padded, which end with skv
  window= softcap= sink     keys that a query sees; a cap of the scores; a logit of each head without a value
  ragged invariant          1 to sq query rows each; a sequence gives the same bits in any batch
For example: serving_llama8b_b1_8k   serving_gpt_oss_b32_8k,window=128   h=8,d=64,page=16,lengths=16384/15x64

A linear layer of a decoding step, y = x W^T with up to 64 rows: linear:m=1,n=1280,k=8192,dtype=fp8b128
  m= n= k=         rows of x, rows of W, their length; or a layer's name for n and k, as 70b_tp8_qkv
  dtype=bf16|fp8b128|fp8t   the type of W; bias and residual are added
  x=e4m3                    x in 8 bits too, beside fp8b128; else x is BF16
For example: linear:70b_tp8_qkv,m=8,dtype=fp8b128"""


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
    tell(_BEHIND_A_NAME)


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
