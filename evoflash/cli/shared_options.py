"""The options that commands share, and how a command shows its answer and says that it was stopped.

What the options of one command alone mean stands with it. Decides nothing.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from evoflash.app import catalogue
from evoflash.app.search.stopping import EXIT_CODE, TerminatedError, progress_note
from evoflash.errors import UsageError
from evoflash.notices import name_database, say
from evoflash.paths import default_database, usual_places
from evoflash.settings import MOST_SEED
from evoflash.views.terminal import PIPE_COLUMNS, json_text, stdout_console, tell
from evoflash.written_files import dry_run, replacing

if TYPE_CHECKING:
    from rich.console import Console

    from evoflash.app.search.session import RunResult


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(catalogue.versions())
        raise typer.Exit


def _louder(wanted: bool) -> None:
    if wanted:
        logging.getLogger("evoflash").setLevel("INFO")


def _quieter(wanted: bool) -> None:
    if wanted:
        os.environ["EVOFLASH_QUIET"] = "1"
        logging.getLogger("evoflash").setLevel("ERROR")


def _remember(db: str) -> str:
    name_database(db)
    return db


def _replace(ctx: typer.Context, wanted: bool) -> bool:
    """For as long as the command runs."""
    ctx.with_resource(replacing(wanted))
    return wanted


def writes_nothing(ctx: typer.Context, wanted: bool) -> bool:
    """For as long as the command runs."""
    if wanted:
        ctx.with_resource(dry_run())
    return wanted


def strategy_names() -> str:
    """The registered strategies, shipped and of extension folders, for a help text: `a, b or c`."""
    names = catalogue.strategies()
    return f"{', '.join(names[:-1])} or {names[-1]}"


Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions and leave.")
]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", callback=_louder, help="Say more on stderr.")]
Quiet = Annotated[
    bool,
    typer.Option(
        "-q",
        "--quiet",
        callback=_quieter,
        help="No progress and no notes; a search prints one line.",
    ),
]
Gpu = Annotated[
    str | None, typer.Option("--gpu", help="A known GPU (see `evoflash gpus`); default: the one present.")
]
ProblemText = Annotated[
    str, typer.Option("--problem", help="mission, s2k_d64,causal or b=,h=,hkv=,s=,d=,...")
]
MaybeGpu = Annotated[
    str | None,
    typer.Option("--gpu", help="A known GPU (see `evoflash gpus`); default: that of the newest search."),
]
MaybeProblem = Annotated[str | None, typer.Option("--problem", help="Default: that of the newest search.")]
Kind = Annotated[
    str | None,
    typer.Option("--kind", help=f"{', '.join(catalogue.export_kinds())}; default: by the path's ending."),
]
Arch = Annotated[
    str | None,
    typer.Option("--arch", help="Machine code for several architectures in one export: sm_80,sm_89."),
]
_USUAL_DATABASE = ", or ".join([*filter(None, [usual_places().get("db")]), "EVOFLASH_DB"])
Db = Annotated[
    str,
    typer.Option(
        "--db",
        default_factory=default_database,
        callback=_remember,
        show_default=_USUAL_DATABASE,
        help="Database file or SQLAlchemy URL.",
    ),
]
Dbs = Annotated[
    list[str],
    typer.Option(
        "--db",
        default_factory=lambda: [default_database()],
        show_default=_USUAL_DATABASE,
        help="Database file or SQLAlchemy URL; several of them, each behind a --db, share one leaderboard.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="Begins the file's C names, so that several files make one program."),
]
SetValues = Annotated[
    list[str] | None, typer.Option("--set", help="With --family: param=value; may be repeated.")
]
Evaluator = Annotated[
    str | None,
    typer.Option(help="gpu (measured) or emulated (estimated); default: gpu where --gpu is present."),
]
WhichRun = Annotated[
    str | None,
    typer.Argument(help="A run's number or name (see `evoflash runs`); default: the newest search."),
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", help="Only this run: its number or its name, as `evoflash runs` shows."),
]
Replayed = Annotated[
    bool, typer.Option("--replayed", help="Look at searches on recordings, and at nothing else.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        callback=_replace,
        help="Replace a file that evoflash did not write, or that was edited since.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", callback=writes_nothing, help="Say what would be written; write and store nothing."
    ),
]
HeaderFile = Annotated[
    Path | None,
    typer.Option("--header", help="Of a .cu without a comment: a TOML file with what it would say."),
]
PricePerHour = Annotated[
    float | None,
    typer.Option("--price-per-hour", help="What an hour of the GPU costs: costs are shown in money, too."),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=MOST_SEED, help="Runs with other seeds are other runs.")
]


def one_run(argument: str | None, option: str | None) -> str | None:
    """The run that was named, behind the command or with --run. UsageError where both were."""
    if argument is not None and option is not None:
        raise UsageError(f"'{argument}' and --run {option} both name a run: give one of them.")
    return option if argument is None else argument


def common(version: Version = False, verbose: Verbose = False, quiet: Quiet = False) -> None:
    """Options that stand before the command; -v and -q may stand behind it as well."""
    del version, verbose, quiet  # their callbacks have run


@contextmanager
def interrupt_in_words(outcome: str = "{kept}; the same command continues") -> Iterator[None]:
    """Ctrl-C inside is one line on stderr and exit code 130; so is SIGTERM, with exit code 143.

    `outcome` says what became of the work; `{kept}` in it stands for what the store has. An empty one says
    only that the command was stopped.
    """
    try:
        yield
    except (KeyboardInterrupt, TerminatedError) as stop:
        what = f": {outcome.format(kept=progress_note(stop))}." if outcome else "."
        is_terminated = isinstance(stop, TerminatedError)
        say(f"stopped by {'SIGTERM' if is_terminated else 'Ctrl-C'}{what}")
        raise typer.Exit(EXIT_CODE if is_terminated else 130) from None


class Facts(Protocol):
    """A record of a use case."""

    def as_dict(self) -> dict[str, Any]:
        """What it says, for JSON."""


FactsT = TypeVar("FactsT", bound=Facts | Sequence[Facts])


def show(
    answer: FactsT,
    print_answer: "Callable[[FactsT, Console], None]",
    *,
    as_json: bool,
    pipe_columns: int = PIPE_COLUMNS,
) -> None:
    """An answer, or several, as JSON, or on a console as wide as the terminal."""
    if not as_json:
        print_answer(answer, stdout_console(pipe_columns))
    elif isinstance(answer, Sequence):
        typer.echo(json_text([each.as_dict() for each in answer]))
    else:
        typer.echo(json_text(answer.as_dict()))


def show_end(result: "RunResult", *, as_json: bool, price_per_hour: float | None = None) -> None:
    from evoflash.views.kernel import describe_end

    if as_json:
        tell(json_text(result.as_dict(price_per_hour)), whole=True)
    else:
        tell(describe_end(result, price_per_hour))


# Commands that store what they find out, or change what is stored; a --force shows who else writes.


# What the validator says, and what a person can do with it.
