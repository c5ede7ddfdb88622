"""`evoflash benchmark-search` compares strategies and their rivals on recorded spaces.

It parses, calls and prints: replay/benchmark.py runs them, views/ shows what was found as a table, JSON or
HTML.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.cli.options import Json, Quiet, interrupt_in_words
from evoflash.errors import UsageError
from evoflash.notices import say, working
from evoflash.settings import MOST, MOST_SEED
from evoflash.views.terminal import stdout_console

if TYPE_CHECKING:
    from evoflash.replay.benchmark import Space


def benchmark_search(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Recorded spaces (Kernel Tuner caches); default: two that are shipped."),
    ] = None,
    *,
    strategies: Annotated[
        str,
        typer.Option(help="Names and groups with commas between: all (ours), optuna, kernel-tuner, kt:pso."),
    ] = "all",
    seeds: Annotated[int, typer.Option(min=1, max=MOST, help="Runs of each strategy.")] = 50,
    first_seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="The first seed.")] = 0,
    budget: Annotated[int, typer.Option(min=1, max=MOST, help="Evaluations of each run.")] = 200,
    reference: Annotated[
        str, typer.Option(help="The strategy that the others are tested against, seed by seed.")
    ] = "evolution",
    jobs: Annotated[int | None, typer.Option(min=1, max=MOST, help="Processes; default: one a core.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Writes NAME.html and NAME.json.")] = Path(
        "benchmark-search"
    ),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare search strategies on several recorded spaces.

    Over many seeds; needs no GPU and stores nothing.

    Example: evoflash benchmark-search --strategies all,optuna,kernel-tuner --seeds 50 --budget 200
    """
    from evoflash.replay.benchmark import benchmark
    from evoflash.replay.spaces import shipped_spaces
    from evoflash.views import benchmark as record
    from evoflash.views import benchmark as report
    from evoflash.views.html import benchmark as page

    names = _runnable(strategies, reference)
    how = record.provenance(sys.argv[1:], seeds=seeds, first_seed=first_seed, reference=reference)
    spaces: list[Space] = []
    words = f"{output.with_suffix('.json')} has the spaces that were done"
    with interrupt_in_words(words), working(f"{len(names)} strategies, {seeds} runs each, space after space"):
        for space in benchmark(
            tuple(files or shipped_spaces()),
            names,
            budget=budget,
            seeds=range(first_seed, first_seed + seeds),
            reference=reference,
            jobs=jobs or len(os.sched_getaffinity(0)),
            done=say,
        ):
            spaces.append(space)  # and kept at once: all of it may take an hour
            output.with_suffix(".json").write_text(record.as_json(spaces, how) + "\n", encoding="utf-8")
            output.with_suffix(".html").write_text(page.html(spaces, how), encoding="utf-8")
    if as_json:
        typer.echo(record.as_json(spaces, how))
    else:
        report.print_tables(spaces, how, stdout_console(pipe_columns=80))
    say(f"wrote {output.with_suffix('.html')} and {output.with_suffix('.json')}.")


def _runnable(strategies: str, reference: str) -> tuple[str, ...]:
    """The contenders whose packages are here, the reference among them; UsageError where none is."""
    from evoflash.replay.contenders import contenders, missing_package

    asked = contenders(f"{strategies},{reference}")
    missing = {missing_package(name) for name in asked} - {""}
    for package in sorted(missing):
        say(f"{package} is not installed, its strategies are left out: pip install 'evoflash[benchmarks]'.")
    if missing_package(reference):
        raise UsageError(f"--reference {reference} cannot run without its package: choose another.")
    return tuple(name for name in asked if not missing_package(name))
