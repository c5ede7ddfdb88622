"""The options that commands share, and what -v and -q do. Runs no command."""

import logging
import os
import shlex
import sys
from typing import Annotated

import typer

from evoflash.errors import UsageError, without_passwords
from evoflash.exports.kinds import KINDS
from evoflash.paths import default_database
from evoflash.settings.values import is_on, value
from evoflash.strategies import STRATEGIES, known_strategies

DEFAULT_STRATEGY = "surrogate"  # of a search, from the command line and from Python
_databases: list[str] = []  # that of the running command, once it is known


def _version(wanted: bool) -> None:
    if wanted:
        from evoflash.timing.environment import versions

        typer.echo(versions())
        raise typer.Exit


def _louder(wanted: bool) -> None:
    if wanted:
        logging.getLogger("evoflash").setLevel("INFO")


def _quieter(wanted: bool) -> None:
    if wanted:
        os.environ["EVOFLASH_QUIET"] = "1"
        logging.getLogger("evoflash").setLevel("ERROR")


def is_verbose() -> bool:
    """Whether -v was given, or EVOFLASH_LOG asks for as much."""
    return logging.getLogger("evoflash").isEnabledFor(logging.INFO)


def db_words() -> str:
    """` --db FILE` where the running command was given a database of its own, for a command that is shown.

    Without the password of a URL.
    """
    own = (without_passwords(db) for db in _databases if db != default_database())
    return "".join(f" --db {shlex.quote(db)}" for db in own)


def _remember(db: str) -> str:
    _databases[:] = [db]
    return db


def strategy_names() -> str:
    """The registered strategies, shipped and of extension folders, for a help text: `a, b or c`."""
    try:
        names = known_strategies()
    except (UsageError, OSError):  # the command that needs them says it; --help is shown all the same
        names = tuple(STRATEGIES)
    return f"{', '.join(names[:-1])} or {names[-1]}"


def log_to_stderr() -> None:
    """Show evoflash's own log at the level in EVOFLASH_LOG; what libraries log is not for users."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("evoflash: %(message)s"))
    logger = logging.getLogger("evoflash")
    logger.handlers = [handler]
    logger.setLevel(_level())


def _level() -> int:
    try:
        word = value("log") or ("error" if is_on("quiet") else "warning")
    except UsageError:  # of a config file: the command says it, and --help is shown all the same
        return logging.WARNING
    level = logging.getLevelNamesMapping().get(word.upper())
    if level is None:
        raise UsageError(f"the log's level '{word}' (EVOFLASH_LOG): give debug, info, warning or error.")
    return level


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
        help="No progress and no notes on stderr; of a search, one line. Data is printed whole.",
    ),
]
Gpu = Annotated[
    str | None, typer.Option("--gpu", help="A known GPU (see `evoflash gpus`); default: the one present.")
]
ProblemText = Annotated[
    str, typer.Option("--problem", help="mission, s2k_d64,causal or b=,h=,hkv=,s=,d=,...")
]
MaybeProblem = Annotated[str | None, typer.Option("--problem", help="Default: the newest in the database.")]
Kind = Annotated[
    str | None,
    typer.Option("--kind", help=f"{', '.join(kind.name for kind in KINDS)}; default: by the path's ending."),
]
Arch = Annotated[
    str | None,
    typer.Option("--arch", help="Machine code for several architectures in one export: sm_90a,sm_89."),
]
Db = Annotated[
    str,
    typer.Option(
        "--db",
        default_factory=default_database,
        callback=_remember,
        show_default="~/.local/share/evoflash/evoflash.db, or EVOFLASH_DB",
        help="Database file or SQLAlchemy URL.",
    ),
]
Dbs = Annotated[
    list[str],
    typer.Option(
        "--db",
        default_factory=lambda: [default_database()],
        show_default="~/.local/share/evoflash/evoflash.db, or EVOFLASH_DB",
        help="Database file or SQLAlchemy URL; several of them, each behind a --db, share one leaderboard.",
    ),
]
Prefix = Annotated[
    str | None,
    typer.Option("--prefix", help="Begins the file's C names, so that several files make one program."),
]
Replayed = Annotated[
    bool, typer.Option("--replayed", help="Look at searches on recordings, and at nothing else.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
PricePerHour = Annotated[
    float | None,
    typer.Option("--price-per-hour", help="What an hour of the GPU costs: costs are shown in money, too."),
]
MOST = 2**31 - 1  # of whatever is counted: databases keep it in 32 bits
MOST_WORKERS = 512  # processes of one machine
MOST_AHEAD = 65_536  # proposals in flight
MOST_SEED = 2**32 - 1  # some samplers take no larger one
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=MOST_SEED, help="Runs with other seeds are other runs.")
]


def common(version: Version = False, verbose: Verbose = False, quiet: Quiet = False) -> None:
    """Options that stand before the command; -v and -q may stand behind it as well."""
    del version, verbose, quiet  # their callbacks have run
