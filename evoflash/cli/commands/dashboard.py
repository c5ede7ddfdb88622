"""`evoflash dashboard` shows a run as an Optuna study in optuna-dashboard. app/dashboard.py does the work."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.commands.runs import closing_database
from evoflash.cli.options import Db, Quiet, interrupt_in_words
from evoflash.errors import UsageError
from evoflash.notices import say, working


def dashboard(
    run: Annotated[
        str | None,
        typer.Argument(help="A run's number or name (see `evoflash runs`); default: the newest search."),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Keep the study: SQLite, or *.log, a journal."),
    ] = None,
    serve: Annotated[bool, typer.Option("--serve/--no-serve", help="Start optuna-dashboard on it.")] = True,
    host: Annotated[str, typer.Option(help="Where it listens; others can see what listens on 0.0.0.0.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.")] = 8080,
    db: Db,
    quiet: Quiet = False,
) -> None:
    """Show a search in optuna-dashboard.

    The search is written as an Optuna study: params, times, user attributes, and a constraint that is
    violated by what is not correct. It is a snapshot: run the command again for what came since. Needs the
    extra `dashboard`; --no-serve writes the study alone.

    Example: evoflash dashboard --no-serve -o study.db
    """
    from evoflash.app import dashboard as serving

    if not serve and out is None:
        raise UsageError("--no-serve writes a study and nothing else: say where with -o study.db.")
    if serve:
        serving.check_installed()
        serving.check_free(host, port)
    with tempfile.TemporaryDirectory() as folder:
        path = out or Path(folder) / "study.log"
        with working("writing the study"):
            trials = _write_study(db, run, path)
        if out is not None:
            say(f"wrote {out}: {trials} trials.")
        if serve:
            with interrupt_in_words("the database is as it was"):
                serving.serve(path, host, port)


def _write_study(db: str, wanted: str | None, path: Path) -> int:
    from evoflash.app.dashboard import write
    from evoflash.app.report.collect import find_run, times_of
    from evoflash.store.store import Store

    with closing_database(db, read_only=True) as database:
        store = Store(database)
        run = find_run(database, store, wanted)
        history = store.history(run)
        said = {"times": times_of(run, [evaluation for _, evaluation in history]), "database": database.label}
        return write(path, run, history, said=said)
