"""`evoflash worker` lends this machine to the searches of a scheduler. evaluators/cluster/ does the work."""

from pathlib import Path
from typing import Annotated

import typer

from evoflash.cli.shared_options import Quiet, Verbose, interrupt_in_words


def worker(
    *,
    scheduler: Annotated[
        str, typer.Option(help="The Dask scheduler: tcp://127.0.0.1:8786, or tls://HOST:8786 with --tls.")
    ],
    gpu: Annotated[
        str | None,
        typer.Option(
            help="Check and time on this GPU of the machine: its number, or its UUID.",
            show_default="none: compile and emulate",
        ),
    ] = None,
    tls: Annotated[
        Path | None, typer.Option(help="The folder of cert.pem and key.pem, the same on all machines.")
    ] = None,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Work for the searches of a scheduler.

    One genome at a time, until Ctrl-C, or until the scheduler stays away.

    Example: evoflash worker --scheduler tcp://127.0.0.1:8786 --gpu 0
    """
    from evoflash.app.search.machines import serve

    with interrupt_in_words("the searches go on without this worker"):
        serve(scheduler, gpu=gpu, tls=tls)
