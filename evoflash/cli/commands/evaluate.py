"""`evoflash evaluate` takes a given kernel through every check to its time. app/evaluate.py takes a genome,
app/judge/ a file of somebody else. Decides nothing.
"""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evoflash.cli.options import (
    Db,
    Evaluator,
    Gpu,
    HeaderFile,
    Json,
    Quiet,
    SetValues,
    Verbose,
    interrupt_in_words,
)
from evoflash.errors import EvoflashError, UsageError
from evoflash.settings import MOST_SEED
from evoflash.views.terminal import json_text, tell

if TYPE_CHECKING:
    from evoflash.app.judge.answer import KernelAnswer
    from evoflash.app.judge.foreign import JudgeOptions

_INCORRECT = 3  # the exit code of a search without a correct kernel


def evaluate(
    what: Annotated[
        str | None,
        typer.Argument(
            help="An id or its first digits (database or archive), a JSON file, an exported .cu, a .cu of "
            "anybody's, or a solution's JSON."
        ),
    ] = None,
    *,
    family: Annotated[str | None, typer.Option("--family", help="Instead: a kernel family.")] = None,
    values: SetValues = None,
    gpu: Gpu = None,
    problem: Annotated[
        str | None, typer.Option("--problem", help="Default: what the genome was made for, else mission.")
    ] = None,
    evaluator: Evaluator = None,
    stage: Annotated[
        str, typer.Option("--stage", help="Of a file: how far to go, check, smoke or time.")
    ] = "time",
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, max=MOST_SEED, help="Of a file: its hidden shapes; drawn anew by default."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, max=86400, help="Of a file: seconds in the sandbox.")
    ] = 120.0,
    header: HeaderFile = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--as", help="As openevolve, shinka (with -o), kernelbench, sol or gpumode reads an evaluation."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Of --as shinka: the results folder.")
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe", help="Of a file: run it with your rights where there is no sandbox."),
    ] = False,
    db: Db,
    as_json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Check and time one kernel: a genome or a file.

    Check one given genome and time it, as a search would; the outcome is stored.

    Where the GPU is present the time is measured and the kernel meets hidden shapes too; elsewhere the CPU
    emulator checks it and its time is estimated. Exit code 3 where the kernel is not correct.

    A .cu that says at its top how it is launched (`evoflash check --help`), an edited export, a solution's
    JSON with such a source, or Python with a `custom_kernel`, `ModelNew` or `run` for PyTorch is judged
    in a sandbox, on shapes and seeds that are drawn anew; nothing is stored. Exit code 2 where it cannot be
    read, 5 where there is no sandbox. docs/evaluate.md has the JSON.

    Example: evoflash evaluate --family flash_mma --set warps=4 --set block_n=64 --gpu l4
    """
    from evoflash.app.judge.foreign import STAGES, JudgeOptions, is_foreign
    from evoflash.app.judge.formats import FORMS

    if form is not None and form not in FORMS:
        raise UsageError(f"--as {form} is unknown: use {', '.join(FORMS)}.")
    if (output is not None) != (form == "shinka"):
        raise UsageError("--as shinka and -o FOLDER go together.")
    chosen_stage = next((each for each in STAGES if each == stage), None)
    if chosen_stage is None:
        raise UsageError(f"--stage {stage} is unknown: use {', '.join(STAGES)}.")
    is_genome = what is None or family is not None or values or not is_foreign(Path(what))
    if header is not None or not is_genome:
        options = JudgeOptions(problem, gpu, chosen_stage, seed, timeout, unsafe, header)
        with _stdout_to_stderr():
            answer, exit_code = _judge(Path(str(what)), options, db, says_it=as_json or form is not None)
        _show(answer, form, output, as_json=as_json)
        if exit_code:
            raise typer.Exit(exit_code)
        return
    _evaluate_genome(
        what, family, values, gpu, problem, evaluator, db=db, form=form, output=output, as_json=as_json
    )


def _evaluate_genome(
    what: str | None,
    family: str | None,
    values: list[str] | None,
    gpu: str | None,
    problem: str | None,
    evaluator: str | None,
    *,
    db: str,
    form: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    from evoflash.app.evaluate import evaluate as evaluate_genome
    from evoflash.app.evaluate import of_words
    from evoflash.app.judge.answer import of_evaluation, with_new_keys
    from evoflash.views.kernel import describe_outcome

    begun_s = time.monotonic()
    with interrupt_in_words():
        chosen = of_words(what, family, values or (), problem=problem, gpu=gpu, db=db)
        outcome = evaluate_genome(chosen, evaluator, db, argv=sys.argv[1:])
    evaluation = outcome.evaluation
    answer = of_evaluation(evaluation, file=what or str(family), seconds=time.monotonic() - begun_s)
    if form is not None:
        _show(answer, form, output, as_json=False)
    elif as_json:
        tell(json_text([with_new_keys(evaluation.as_dict(), answer)]), whole=True)
    else:
        tell(describe_outcome(outcome, values or ()))
    if not evaluation.is_correct:
        raise typer.Exit(_INCORRECT)


def _judge(path: Path, options: "JudgeOptions", db: str, *, says_it: bool) -> "tuple[KernelAnswer, int]":
    """The answer and the exit code. An error is an answer too, for a program that asked for one."""
    from evoflash.app.judge.answer import refusal
    from evoflash.app.judge.foreign import judge_file

    try:
        with interrupt_in_words("nothing is stored"):
            answer = judge_file(path, options, db=db)
    except EvoflashError as error:
        if not says_it:
            raise
        print(f"evoflash: {error}", file=sys.stderr)
        return refusal(str(path), str(error)), error.exit_code
    return answer, 0 if answer.is_correct else _INCORRECT


def _show(answer: "KernelAnswer", form: str | None, output: Path | None, *, as_json: bool) -> None:
    from evoflash.app.judge.formats import FORMS, write_shinka
    from evoflash.views.check import answer_text

    if output is not None:
        write_shinka(answer, output)
    elif form is not None:
        tell(FORMS[form](answer), whole=True)
    else:
        tell(json_text(answer.as_dict()) if as_json else answer_text(answer), whole=True)


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """What a library prints inside goes to stderr: stdout is the answer's alone."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
