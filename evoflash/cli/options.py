"""The options that commands share, and their defaults from config files and the environment.

The defaults of options that config files and the environment set, checked against the commands, and how an
answer is shown.
"""

import difflib
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption

from evoflash.app import catalogue
from evoflash.app.search.stopping import EXIT_CODE, TerminatedError, progress_note
from evoflash.cli import json_answer
from evoflash.errors import UsageError
from evoflash.notices import heard_by, name_database, say
from evoflash.paths import default_database, usual_places
from evoflash.settings import MOST, MOST_SEED, ConfigFile, by_key, config_files, is_on, lookup, unknown
from evoflash.views.terminal import PIPE_COLUMNS, json_text, stdout_console, tell
from evoflash.written_files import dry_run, replacing

if TYPE_CHECKING:
    from rich.console import Console

    from evoflash.app.search.session import RunResult

Defaults = dict[str, Any]  # by command, then by parameter, or by command of a group


def defaults_of(commands: Mapping[str, Any], ctx: typer.Context) -> Defaults:
    """Values by command and parameter, as a context's `default_map` takes them. UsageError for what is wrong.

    The environment comes before the config file of the working folder, that before the one in the config
    home; in a file a command's table comes before a setting for all commands.
    """
    found: Defaults = {}
    for file in reversed(config_files()):
        _put_settings(found, commands, file.values)
        _put_tables(found, commands, _Tables(file, file.tables, ctx))
    _put_settings(found, commands, _of_environment())
    return found


def _of_environment() -> dict[str, Any]:
    found = {key: (lookup(key), setting.variable) for key, setting in by_key().items()}
    return {key: it.value for key, (it, variable) in found.items() if it.source == variable}


def _put_settings(found: Defaults, commands: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """The settings that are an option of commands, into all of these and those of groups."""
    for name, command in commands.items():
        mine, options = found.setdefault(name, {}), _options(command)
        for key, setting in by_key().items():
            is_meant = setting.commands is None or name in setting.commands
            if is_meant and key in values and f"--{key}" in options:
                mine[options[f"--{key}"].name] = values[key]
        _put_settings(mine, getattr(command, "commands", {}), values)


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables of a config file, and where in it they stand: `runs.` for those of a group's commands."""

    file: ConfigFile
    tables: Mapping[str, Any]
    ctx: typer.Context
    within: str = ""


def _put_tables(found: Defaults, commands: Mapping[str, Any], given: _Tables) -> None:
    for name, table in given.tables.items():
        if name not in commands:
            raise unknown(given.file.path, "command", f"{given.within}{name}", commands)
        nested, mine = getattr(commands[name], "commands", {}), found.setdefault(name, {})
        options = {flag.lstrip("-"): param for flag, param in _options(commands[name]).items()}
        for key, value in table.items():
            if key in nested and isinstance(value, dict):
                within = replace(given, tables={key: value}, within=f"{given.within}{name}.")
                _put_tables(mine, nested, within)
            elif key not in options:
                what = f"option of `evoflash {given.within.replace('.', ' ')}{name}`"
                raise unknown(given.file.path, what, key, (*options, *nested))
            else:
                place = f"[{given.within}{name}] {key}"
                mine[options[key].name] = _convert(given.file, place, options[key], value, given.ctx)


def _options(command: Any) -> dict[str, TyperOption]:
    """By their long flags; `--help` and the like end a command and so have no default."""
    params = [param for param in command.params if isinstance(param, TyperOption) and not param.is_eager]
    return {flag: param for param in params for flag in param.opts if flag.startswith("--")}


def _convert(
    file: ConfigFile, place: str, parameter: TyperOption, value: object, ctx: typer.Context
) -> object:
    """The value as the option takes it. UsageError where it is none of its values."""
    place = f"{file.path}: {place} = {value!r}"
    if parameter.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{place}: write true or false.")
        return value
    is_many = parameter.multiple or parameter.nargs != 1
    if isinstance(value, list) != is_many or isinstance(value, bool | dict):
        raise UsageError(f"{place}: write {'a list' if is_many else 'a number or a text in quotes'}.")
    typed = [str(each) for each in value] if isinstance(value, list) else str(value)
    try:
        parameter.process_value(ctx, typed)  # a flag's callback would act; no other option has one
    except typer.BadParameter as error:
        raise UsageError(f"{place}: {error.message.rstrip('.')}: correct it.") from None
    return typed


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
Db = Annotated[
    str,
    typer.Option(
        "--db",
        default_factory=default_database,
        callback=_remember,
        show_default=f"{usual_places()['db']}, or EVOFLASH_DB",
        help="Database file or SQLAlchemy URL.",
    ),
]
Dbs = Annotated[
    list[str],
    typer.Option(
        "--db",
        default_factory=lambda: [default_database()],
        show_default=f"{usual_places()['db']}, or EVOFLASH_DB",
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
_STORING = frozenset(
    {
        "best",
        "doctor",
        "baselines",
        "delete",
        "evaluate",
        "merge",
        "new",
        "profile",
        "remeasure",
        "rename",
        "verify",
    }
)
_EDITING = frozenset({"delete", "merge", "rename"})  # they take back themselves what a dry run does


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --json, and with --dry-run where it writes, if it has no such options of its own.

    A dry run writes no files and works on a copy of the database.
    """
    signature = inspect.signature(command)
    known = signature.parameters
    added: dict[str, Any] = {}
    if not {"as_json", "json_file"} & set(known):
        added["as_json"] = Json
    if "dry_run" not in known and ({"force", "html"} & set(known) or command.__name__ in _STORING):
        added["dry_run"] = DryRun
    if not added:
        return command

    @wraps(command)
    def with_options(*arguments: Any, **options: Any) -> None:
        mine = {name: options.pop(name) for name in added}
        db = options.get("db")
        if not mine.get("dry_run") or not isinstance(db, str) or command.__name__ in _EDITING:
            command(*arguments, **options)
            return
        from evoflash.app.runs import trial_database

        with trial_database(db) as copy:
            command(*arguments, **options | {"db": copy})

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(name, keyword, default=False, annotation=kind) for name, kind in added.items()]
    with_options.__signature__ = signature.replace(parameters=[*known.values(), *extra])  # type: ignore[attr-defined]
    with_options.__annotations__ = command.__annotations__ | added
    return with_options


def program(commands: Sequence[Callable[..., None]], groups: Sequence[typer.Typer] = ()) -> typer.Typer:
    """The program with these commands; its help lists them in this order, and then groups of commands."""
    app = typer.Typer(
        name="evoflash",
        help="Evolve CUDA kernels of attention and decode linear layers.",
        cls=_Commands,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(common)
    for command in commands:
        app.command()(with_common_options(command))
    for group in groups:
        app.add_typer(group)
    return app


def group_of(app: typer.Typer) -> TyperGroup:
    """The program as it is called, again and again; a Typer makes it anew for each call."""
    from typer.main import get_command

    group = get_command(app)
    assert isinstance(group, TyperGroup)
    _name_values(group)
    return group


_METAVARS = {"int": "N", "float": "NUMBER", "str": "TEXT", "Path": "PATH"}
_NO_LIMITS = (MOST, MOST_SEED)  # what a database or a sampler can hold: not worth a word in a help text


def _name_values(command: Any) -> None:
    """How the help writes the values that options and arguments take, here and in all subcommands."""
    for param in command.params:
        if isinstance(param, TyperArgument):
            param.metavar = param.metavar or str(param.name).upper()
        elif not param.is_flag:
            kind = re.search(r"(\w+)\W*$", str(param.bare_type()))
            param.metavar = param.metavar or _METAVARS.get(kind[1] if kind else "")
        if getattr(param, "max", None) in _NO_LIMITS:  # the type keeps them
            param.max = None
            param.min = None if param.min == 0 else param.min
    for each in getattr(command, "commands", {}).values():
        _name_values(each)


def _write_note(message: str) -> None:
    json_answer.hear(message)
    if not is_on("quiet"):
        print(f"evoflash: {message}", file=sys.stderr, flush=True)


_FEW = 10  # commands that an error can list
# What the validator says, and what a person can do with it.
_PLAIN = (
    (r"Input should be a valid integer.*", "write a whole number."),
    (r"Input should be a valid number.*", "write a number."),
    (r"Input should be greater than or equal to (\S+)", r"write at least \1."),
    (r"Input should be less than or equal to (\S+)", r"write at most \1."),
    (r"^Value error, ", ""),
)


@contextmanager
def _plain_usage_errors() -> Iterator[None]:
    """A mistake on the command line in words that say what to write."""
    try:
        yield
    except typer.TyperException as error:
        for pattern, words in _PLAIN:
            error.message = re.sub(pattern, words, error.message)
        possible = getattr(error, "possibilities", None)
        if possible:
            near = difflib.get_close_matches(
                str(getattr(error, "option_name", "")), possible, n=1, cutoff=0.0
            )
            error.message = f"{error.message}. Did you mean {near[0]}?"
            error.possibilities = None  # type: ignore[attr-defined]
        group = getattr(getattr(error, "ctx", None), "command", None)
        if error.message.startswith("No such command") and isinstance(group, TyperGroup):
            alone = f" `evoflash {group.name}` alone lists them." if group.invoke_without_command else ""
            few = len(group.commands) < _FEW
            known = f"Use one of {', '.join(sorted(group.commands))}." if few else "See `evoflash --help`."
            error.message = f"{error.message}{alone} {known}"
        json_answer.hear_error(error.format_message() if hasattr(error, "format_message") else error.message)
        raise


class _Commands(TyperGroup):
    """The group of all commands: notes go to stderr, and Ctrl-C that a command has no words for is a line."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        with heard_by(_write_note):
            return super().main(*arguments, **options)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with interrupt_in_words(""), _plain_usage_errors():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        with interrupt_in_words(""), _plain_usage_errors():
            ctx.default_map = defaults_of(self.commands, ctx)
            return super().invoke(ctx)
