"""`evoflash benchmark-search` compares strategies and rivals on recorded spaces. app/recordings.py works."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import DryRun, Force, Json, Quiet, interrupt_in_words
from evoflash.notices import say
from evoflash.settings import MOST, MOST_SEED
from evoflash.views.terminal import json_text, stdout_console
from evoflash.written_files import check_replaceable, write_text, wrote


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
    force: Force = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare search strategies on several recorded spaces.

    Over many seeds; needs no GPU and stores nothing.

    Example: evoflash benchmark-search --strategies all,optuna,kernel-tuner --seeds 50 --budget 200
    """
    from evoflash.app.recordings import run_benchmark
    from evoflash.views.html.search_curves import page_of_benchmark
    from evoflash.views.recordings import print_benchmark

    page, record = output.with_suffix(".html"), output.with_suffix(".json")
    check_replaceable(page, record)
    if dry_run:
        say(f"would run {strategies} with {seeds} seeds for {budget} evaluations each, and write {record}.")
        return
    with interrupt_in_words(f"{record} has the spaces that were done"):
        for found in run_benchmark(
            files or (),
            strategies,
            seeds=seeds,
            first_seed=first_seed,
            budget=budget,
            reference=reference,
            jobs=jobs,
            argv=sys.argv[1:],
        ):  # and kept at once: all of it may take an hour
            text = json_text(found.as_dict(), indent=None)
            write_text(record, text + "\n")
            write_text(page, page_of_benchmark(found))
    if as_json:
        typer.echo(text)
    else:
        print_benchmark(found, stdout_console(pipe_columns=80))
    say(f"{wrote()} {page} and {record}.")
