"""The command `evoflash leaderboard`. It parses, calls and prints; table.py asks the store."""

from typing import Annotated

import typer

from evoflash.commands.options import MOST, Db, Gpu, Json, MaybeProblem, Replayed
from evoflash.commands.terminal import stdout_console


def leaderboard(
    *,
    gpu: Gpu = None,
    problem: MaybeProblem = None,
    top: Annotated[int, typer.Option(min=1, max=MOST, help="Rows per table.")] = 20,
    wide: Annotated[bool, typer.Option("--wide", help="All columns, however narrow the terminal.")] = False,
    replayed: Replayed = False,
    db: Db,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Correct kernels, fastest first.

    Measured and estimated ones in tables of their own.

    Example: evoflash leaderboard --gpu l4 --problem mission
    """
    from evoflash.commands.leaderboard import report
    from evoflash.commands.leaderboard.table import read
    from evoflash.evaluation import Basis
    from evoflash.gpu import known_name
    from evoflash.problem import canonical
    from evoflash.store.store import open_store

    with open_store(db, read_only=True) as store:
        wanted, where = Basis.REPLAYED if replayed else None, known_name(gpu)
        table = read(store, problem=canonical(problem), gpu=where, basis=wanted, top=top)
    if as_json or as_csv:
        typer.echo(report.as_json(table) if as_json else report.as_csv(table), nl=as_json)
    else:
        report.print_table(table, stdout_console(), wide=wide)
