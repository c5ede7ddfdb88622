"""`evoflash problems` lists the named problems and their shapes. It searches none of them.

It says, too, which sizes may stand behind a name.
"""

import json
from typing import TYPE_CHECKING

import typer

from evoflash.cli.options import Json
from evoflash.views.terminal import stdout_console, tell

if TYPE_CHECKING:
    from evoflash.operation import Workload

WHAT = {
    "mission": "the default: a short sequence, all heads at once",
    "seed_short": "half the length of mission",
    "seed_long": "twice the length of mission",
    "short128": "so short that starting the kernel is most of its time",
    "short256": "short, two in a batch",
    "s1k_d64": "a batch that fills a large GPU",
    "s2k_d64": "training, head dimension 64",
    "s2k_d128": "training, head dimension 128",
    "s4k_d128": "training or prefill",
    "s8k_d128": "prefill of a long prompt",
    "s16k_d128": "prefill of a very long prompt",
    "s8k_d64": "a long prompt, head dimension 64",
    "gqa4k_d128": "grouped queries: four query heads share a key/value head",
    "gqa8k_d128": "grouped queries, a long prompt",
    "decode8k": "decoding: one new query for each sequence, 8192 keys",
}
_BEHIND = """\
Behind a name, or in its place, with commas between:
  b= h= hkv= d=    batch, query heads, key/value heads, head dimension
  s= sq= skv=      both lengths, the query length, the key/value length
  causal           a query sees no later key
  dtype=fp16|bf16  the type of Q, K, V and O
  acc=fp16         scores may be summed in fp16, an accuracy class of its own
Several problems joined by + are ranked by the geometric mean of their times.
For example: mission,causal   s2k_d64,dtype=bf16   b=4,h=32,hkv=8,s=4096,d=128   mission+mission,causal"""


def problems(as_json: Json = False) -> None:
    """The named problems, and how to write others.

    Example: evoflash problems
    """
    from evoflash.problem import parse_problem

    named = {name: parse_problem(name).workloads[0] for name in WHAT}
    if as_json:
        rows = [{"name": name, "problem": str(w), "what": WHAT[name]} for name, w in named.items()]
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print(named)


def _print(named: "dict[str, Workload]") -> None:
    from evoflash.views.tables import Column, print_table

    sizes = [workload.names() for workload in named.values()]
    columns = [
        Column("name", tuple(named), is_number=False),
        Column("batch", tuple(str(size["batch"]) for size in sizes), 1),
        Column("heads", tuple(f"{size['heads']}/{size['kv_heads']}" for size in sizes), 1),
        Column("queries", tuple(str(size["seq_q"]) for size in sizes)),
        Column("keys", tuple(str(size["seq_kv"]) for size in sizes)),
        Column("what it is", tuple(WHAT[name] for name in named), 2, is_number=False, wraps_at=28),
    ]
    print_table(columns, stdout_console())
    typer.echo()
    tell(_BEHIND)
