"""`evoflash verify` checks a claim about a kernel and times it again here. app/verify/ does the work."""

import sys
from typing import Annotated

import typer

from evoflash.cli.shared_options import Db, Gpu, Json, Quiet, Verbose, interrupt_in_words, show
from evoflash.settings import MOST

_EXIT_CODES = {"confirmed": 0, "not confirmed": 1, "cannot be compared": 4}


def verify(
    what: Annotated[
        str,
        typer.Argument(
            metavar="ROW", help="An id or its first digits, a JSON file or -, an exported file or folder."
        ),
    ],
    *,
    row: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Of a file with several rows: which, from 1.")
    ] = None,
    within: Annotated[
        float | None,
        typer.Option(
            help="How far beyond the interval here a claimed time may be, as a share.", show_default="0.05"
        ),
    ] = None,
    gpu: Gpu = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Of a kernel that was evaluated for several: for which.")
    ] = None,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Check and time a claimed kernel again.

    Anyone's claim about a kernel, checked and timed again here: a row of `leaderboard --json`, what `best
    --json` prints, an exported file or folder, an id of the database or the archive.

    The kernel goes up the whole ladder and is stored as a run of its own; without the claim's GPU the
    emulator checks it and its time is not judged. Exit code 0: confirmed, 1: not confirmed, 4: it cannot be
    compared here.

    Example: evoflash verify kernel.json
    """
    from evoflash.app.verify import verdict
    from evoflash.app.verify.claim_sources import ClaimSelector
    from evoflash.views.verify import print_verdict

    with interrupt_in_words():
        found = verdict.verify(what, ClaimSelector(row, problem, gpu), db, within=within, argv=sys.argv[1:])
    show(found, print_verdict, as_json=as_json)
    if code := _EXIT_CODES[found.verdict.answer]:
        raise typer.Exit(code)
