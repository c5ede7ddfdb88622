"""Runs one module's trials in this process and writes a journal of what became of each; see sweep.py.

The journal is a file of JSON lines, so that what came before a crash is known: {"begin": number, "labels":
[...]} before each trial, {"outcomes": [...]} after it, {"finished": true} at the end, each with the time "at"
which it was written, in seconds of the monotonic clock.
"""

import contextlib
import hashlib
import json
import os
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from evoflash.compilers import gxx
from evoflash.compilers.ef_layer import device_headers_sha
from evoflash.compilers.nvrtc import compile_candidate, first_error
from evoflash.conformance import arithmetic, snippets, tma, wgmma
from evoflash.conformance import on_emulator as emulated
from evoflash.conformance.cases import Label, Module, Outcome, Trial
from evoflash.conformance.judge import compare
from evoflash.errors import EvoflashError
from evoflash.evaluation import Candidate
from evoflash.operation import registry
from evoflash.space import Genome


@cache
def modules(arch: str) -> dict[str, Module]:
    """Every text for a GPU of that architecture, by name; those that take longest first."""
    slow_first = chain(
        reversed(list(wgmma.modules(arch))),
        tma.modules(arch),
        arithmetic.modules(arch),
        snippets.modules(arch),
    )
    return {module.name: module for module in slow_first}


def run_module(
    name: str, arch: str, journal: Path, *, first: int, on_gpu: bool, without: Collection[str] = ()
) -> None:
    """The trials from number `first` on, those of the primitives `without` left out. Where the GPU's context
    is lost, ends the process.
    """
    sys.unraisablehook = _forget  # what is freed in a lost context complains; the journal has said why
    module = modules(arch)[name]
    with journal.open("a", encoding="utf-8") as file:

        def note(**line: Any) -> None:
            print(json.dumps({**line, "at": round(time.monotonic(), 3)}), file=file, flush=True)

        note()
        try:
            library, cubin = gxx.build(module.source, name="conformance"), ""
            if on_gpu:
                cubin = cubin_path(module, arch)
        except EvoflashError as error:
            note(begin=-1, labels=_listed(module.labels))
            note(outcomes=[_failed(label, str(error)) for label in module.labels])
            note(finished=True)
            return
        for number, trial in enumerate(module.make()):
            if number < first or trial.cases[0].primitive in without:
                continue
            note(begin=number, labels=_listed(trial.cases))
            outcomes, lost = run_trial(trial, library, cubin)
            note(outcomes=[asdict(outcome) for outcome in outcomes])
            if lost:
                os._exit(1)
        note(finished=True)


def run_trial(trial: Trial, library: Path, cubin: str) -> tuple[list[Outcome], bool]:
    """What became of its cases, and whether the GPU's context is lost. No cubin: the emulator alone."""
    try:
        found = emulated.run(trial, library)
    except (emulated.ReportedError, EvoflashError) as error:
        return [Outcome(label, False, str(error)) for label in trial.cases], False
    if not cubin:
        return compare(trial, emulated=found, gpu=None), False
    from evoflash.conformance import on_gpu as silicon

    try:
        return compare(trial, emulated=found, gpu=silicon.run(trial, cubin)), False
    except EvoflashError as error:
        return [Outcome(label, False, str(error)) for label in trial.cases], False
    except Exception as error:  # CUDA's, by whatever name CuPy gives it
        reason = f"the GPU: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [Outcome(label, False, reason, end="crashed") for label in trial.cases], True


def cubin_path(module: Module, arch: str) -> str:
    """The compiled kernels, from the cache if they are there; needs no GPU. EvoflashError as NVRTC says."""
    # Kernels without genes; of the compile key only the arch plays a part.
    candidate = Candidate(
        genome=Genome(f"conformance_{module.name}", 1, ()),
        compile_key=registry.default().probe.compile_key(arch),
        source=module.source,
        source_sha=hashlib.sha256((module.source + device_headers_sha()).encode()).hexdigest(),
    )
    build = compile_candidate(candidate)
    if not build.ok:
        raise EvoflashError(f"NVRTC refuses the kernels for {arch}: {first_error(build.log)}")
    return build.cubin_path


def read_journal(journal: Path) -> Iterator[dict[str, Any]]:
    """Its lines so far; one that a dying process left unfinished is left out."""
    for line in journal.read_text(encoding="utf-8").splitlines() if journal.exists() else ():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _listed(labels: tuple[Label, ...]) -> list[dict[str, Any]]:
    return [asdict(label) for label in labels]


def _forget(_: object) -> None:
    """Say nothing."""


def _failed(label: Label, reason: str) -> dict[str, Any]:
    return asdict(Outcome(label, False, reason, end="not run"))
