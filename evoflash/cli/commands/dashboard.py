"""`evoflash dashboard` shows a run as an Optuna study in optuna-dashboard. app/dashboard.py does the work."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Force, Quiet, RunOption, WhichRun, interrupt_in_words, one_run
from evoflash.errors import UsageError
from evoflash.notices import say
from evoflash.written_files import is_dry_run, note_file, wrote


def dashboard(
    run: WhichRun = None,
    *,
    run_option: RunOption = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Keep the study: SQLite, or *.log, a journal."),
    ] = None,
    force: Force = False,
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
    from evoflash.app import dashboard as studies

    if not serve and out is None:
        raise UsageError("--no-serve writes a study and nothing else: say where with -o study.db.")
    if out is not None:
        studies.check_replaceable_study(out)
    if serve:
        studies.check_installed()
        studies.check_free(host, port)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.log" if out is None or is_dry_run() else out
        trials = studies.write_study(db, one_run(run, run_option), path)
        if out is not None:
            note_file(out)
            say(f"{wrote()} {out}: {trials} {'trial' if trials == 1 else 'trials'}.")
        if serve and not is_dry_run():
            with interrupt_in_words("the database is as it was"):
                studies.serve(path, host, port)
