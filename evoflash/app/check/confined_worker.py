"""Runs somebody else's kernel in the emulator inside of a sandbox, and answers with bytes. Judges nothing.

The program of a process that confined_runs.py starts. Each run is made in a process of its own, which was
forked before anything of the kernel was loaded and has no way to start another, so that no run finds what an
earlier one has left. There are no right answers here, only inputs: what the kernel makes of them is judged
outside.
"""

import contextlib
import gc
import json
import os
import pickle
import resource
import struct
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from evoflash.app.check.cases import Case, WorkloadCase, call_on, launch_own
from evoflash.emulator import launch as emulator
from evoflash.emulator.call import EmulatorRun
from evoflash.emulator.launch import ask_addr2line, ask_instead
from evoflash.errors import EvoflashError
from evoflash.operation import operation_of
from evoflash.sandbox.confinement import hide_memory, refuse_syscalls
from evoflash.workload import TestInput

HEAD = struct.Struct("<QQ")  # bytes of the head, which is JSON, and of the arrays behind it
_MOST_ANSWER = 1 << 30
_MOST_ASKED = 1 << 20  # characters
_GRACE_S = 30


@dataclass(frozen=True, slots=True, eq=False)
class ConfinedRequest:
    """One run of one case; `inputs` are a workload's, of each call; none where the kernel has arguments of
    its own.
    """

    library: Path
    case: Case
    run: EmulatorRun
    inputs: tuple[TestInput, ...]
    cpu_limit_s: float


def _answer(request: ConfinedRequest) -> tuple[dict[str, Any], list[bytes]]:
    case = request.case
    if not isinstance(case, WorkloadCase):
        emulation, written = launch_own(request.library, case.launch, case.arguments, request.run)
        outputs = [
            {"name": each.name, "poisoned": each.poisoned, "is_changed": each.is_changed} for each in written
        ]
        arrays = [np.ascontiguousarray(each.values).tobytes() for each in written]
        return _head([[emulation]], outputs), arrays
    called = call_on(request.library, case, request.inputs, request.run)
    names = outputs_of(case, request.run)
    arrays = [np.ascontiguousarray(output.tensors[name]).tobytes() for _, output in called for name in names]
    return _head([emulations for emulations, _ in called], [{"name": name} for name in names]), arrays


def outputs_of(case: WorkloadCase, run: EmulatorRun) -> tuple[str, ...]:
    """The outputs that a run writes, in the order in which they are answered."""
    specs = operation_of(case.workload).tensors(case.workload)
    return tuple(spec.name for spec in specs if spec.role != "input" and spec.name not in run.without)


def _head(
    calls: Sequence[Sequence[emulator.Emulation]], outputs: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return {"calls": [[asdict(each) for each in call] for call in calls], "outputs": list(outputs)}


def _run_here(request: ConfinedRequest, pipe: int, asks: IO[str], told: IO[str]) -> None:
    """The run, in the process that was forked for it. Nothing of it comes back but the answer."""

    def ask_parent(library: Path, offsets: Sequence[int]) -> str:
        asks.write(json.dumps(list(offsets)) + "\n")
        asks.flush()
        return str(json.loads(told.readline()))

    ask_instead(ask_parent)
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    limit_s = int(request.cpu_limit_s) + _GRACE_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    refuse_syscalls(also_processes=True)
    try:
        head, arrays = _answer(request)
    except EvoflashError as error:
        head, arrays = {"error": str(error)}, []
    text = json.dumps(head).encode()
    with os.fdopen(pipe, "wb") as file:
        file.write(HEAD.pack(len(text), sum(map(len, arrays))))
        file.write(text)
        for array in arrays:
            file.write(array)


def _pipe() -> tuple[IO[str], IO[str]]:
    """What is written to the second can be read from the first."""
    reads, writes = os.pipe()
    return open(reads, encoding="utf-8"), open(writes, "w", encoding="utf-8")


_places = lru_cache(maxsize=64)(ask_addr2line)  # most runs ask for the same


def _tell_places(questions: IO[str], tells: IO[str], library: Path) -> None:
    """Ask addr2line for the run's process, which cannot start it."""
    with contextlib.suppress(ValueError, OSError), questions, tells:
        while line := questions.readline(_MOST_ASKED):
            offsets = tuple(int(each) for each in json.loads(line))
            tells.write(json.dumps(_places(library, offsets)) + "\n")
            tells.flush()


def _in_a_child(request: ConfinedRequest, answers: int) -> tuple[int, bytes]:
    """How the run's process ended, and what it wrote."""
    reads, writes = os.pipe()
    questions, asks = _pipe()
    told, tells = _pipe()
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.close(reads)
            os.close(answers)
            questions.close()
            tells.close()
            _run_here(request, writes, asks, told)
            code = 0
        finally:
            os._exit(code)
    os.close(writes)
    asks.close()
    told.close()
    telling = threading.Thread(target=_tell_places, args=(questions, tells, request.library), daemon=True)
    telling.start()
    parts, size = list[bytes](), 0
    while (part := os.read(reads, 1 << 20)) and size <= _MOST_ANSWER:
        parts.append(part)
        size += len(part)
    os.close(reads)
    _, status = os.waitpid(pid, 0)
    telling.join()
    return os.waitstatus_to_exitcode(status), b"".join(parts)


def main(cache: str, answers: int) -> None:
    """Serve requests on stdin until it closes; the emulator's runtime lies in that cache."""
    hide_memory()
    os.environ["EVOFLASH_CACHE_DIR"] = cache
    with emulator.Memory() as memory:  # which loads the runtime, once for all runs
        memory.array("none", (1,), np.uint8)
    # What is here already is of no interest to the collector of the runs' processes, which would copy it all.
    gc.collect()
    gc.freeze()
    requests = sys.stdin.buffer
    while size := requests.read(8):
        request: ConfinedRequest = pickle.loads(requests.read(int.from_bytes(size, "little")))
        if isinstance(request.case, WorkloadCase):  # loaded once, rather than in the process of each run
            operation_of(request.case.workload)
        code, answer = _in_a_child(request, answers)
        with os.fdopen(answers, "wb", closefd=False) as file:
            file.write(struct.pack("<qQ", code, len(answer)) + answer)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
