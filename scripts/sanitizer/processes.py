"""Many short processes on the GPUs, each a job alone or under one of compute-sanitizer's tools, with a limit.

Reads nothing of what they say. A process that does not end is killed with its children.
"""

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import DeviceError

Record = dict[str, Any]

PLAIN = "plain"
# The defaults, with what helps a tool to see more: space between buffers, a limit for waits.
TOOLS: dict[str, tuple[str, ...]] = {
    "memcheck": ("--padding", "4096"),
    "racecheck": ("--racecheck-deadlock-timeout", "5000"),
    "initcheck": (),
    "synccheck": (),
}
_COMMON = ("--error-exitcode", "9", "--show-backtrace", "device", "--print-limit", "40")
_CONNECT_S = 60
_BASE_PORT, _PORTS = 49152, 16  # of a slot's own, so that tools that start at once do not meet
_KILLED_S = 5.0  # to wait for a killed process; one that the driver holds is left to it
_MOST_OUTPUT, _END_OUTPUT = 12_000, 2_000  # characters kept, and how many of them from the end
_RUNNER = Path(__file__).resolve().with_name("runner.cpp")


@dataclass(frozen=True, slots=True)
class Task:
    """A job's folder, and the tool that it runs under."""

    folder: Path
    tool: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A place where one process at a time may run."""

    gpu: int
    number: int


def build_runner(folder: Path) -> Path:
    """The runner, compiled by g++. DeviceError with g++'s first line where that fails."""
    program = folder / "runner"
    command = ["g++", "-std=c++17", "-O1", str(_RUNNER), "-ldl", "-o", str(program)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        reason = (outcome.stderr.splitlines() or ["no reason given"])[0]
        raise DeviceError(f"the runner does not compile: {reason}")
    return program


def find_sanitizer() -> str:
    """compute-sanitizer's path. DeviceError where there is none."""
    usual = [
        Path("/usr/local/cuda/bin/compute-sanitizer"),
        *Path("/usr/local").glob("cuda-*/bin/compute-sanitizer"),
    ]
    found = shutil.which("compute-sanitizer") or next((str(path) for path in usual if path.exists()), "")
    if not found:
        raise DeviceError("compute-sanitizer is missing: install the CUDA toolkit, or put it on PATH.")
    return found


def present_gpus() -> list[int]:
    """The GPUs that nvidia-smi lists and CUDA_VISIBLE_DEVICES, if set, allows; DeviceError if none."""
    try:
        said = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    listed = [number for number, line in enumerate(said.splitlines()) if line.startswith("GPU ")]
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    chosen = listed if allowed is None else [gpu for gpu in listed if str(gpu) in allowed.split(",")]
    if not chosen:
        raise DeviceError("no GPU is here: nvidia-smi lists none that CUDA_VISIBLE_DEVICES allows.")
    return chosen


def slots(gpus: list[int], per_gpu: int) -> list[Slot]:
    """Neighbours in the list are on different GPUs."""
    return [Slot(gpus[number % len(gpus)], number) for number in range(len(gpus) * per_gpu)]


class Bench:
    """The means to run tasks: the runner, the sanitizer, a time when to stop."""

    def __init__(self, runner: Path, sanitizer: str, *, limit_s: float, deadline: float) -> None:
        """`deadline` is of time.monotonic(); `limit_s` is each process's."""
        self._runner, self._sanitizer = str(runner), sanitizer
        self._limit_s, self._deadline = limit_s, deadline

    def run(self, tasks: Iterable[Task], places: list[Slot], done: Callable[[Task, Record], None]) -> None:
        """Start the tasks in order, one to a slot; `done` is called in threads. Late ones are left out."""
        free: queue.Queue[Slot] = queue.Queue()
        for slot in places:
            free.put(slot)

        def one(task: Task) -> None:
            slot = free.get()
            try:
                if time.monotonic() < self._deadline:
                    done(task, self._run_one(task, slot))
            finally:
                free.put(slot)

        with ThreadPoolExecutor(len(places)) as threads:
            for future in [threads.submit(one, task) for task in tasks]:
                future.result()

    def _run_one(self, task: Task, slot: Slot) -> Record:
        """Exit code (None: killed at its limit), seconds of wall time, and output."""
        temporary = Path(f"/tmp/evoflash-slot{slot.number}")  # short: sockets live there
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(slot.gpu), "TMPDIR": str(temporary)}
        begin = time.perf_counter()
        process = subprocess.Popen(
            self._command(task, slot),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        limit_s = min(self._limit_s, max(1.0, self._deadline - time.monotonic()))
        output, code = _await(process, limit_s)
        seconds = time.perf_counter() - begin
        return {"code": code, "seconds": seconds, "output": _ends(output)}

    def _command(self, task: Task, slot: Slot) -> list[str]:
        job = [self._runner, str(task.folder / "job.txt")]
        if task.tool == PLAIN:
            return job
        return [
            *(self._sanitizer, "--tool", task.tool, *TOOLS[task.tool], *_COMMON),
            *("--launch-timeout", str(_CONNECT_S), "--port", str(_BASE_PORT + _PORTS * slot.number)),
            *job,
            *(["unset"] if task.tool == "initcheck" else []),
        ]


def _ends(output: str) -> str:
    """The output without its middle, where that is long: the first reports and the count at the end."""
    if len(output) <= _MOST_OUTPUT:
        return output
    return f"{output[: _MOST_OUTPUT - _END_OUTPUT]}\n...\n{output[-_END_OUTPUT:]}"


def _await(process: "subprocess.Popen[bytes]", limit_s: float) -> tuple[str, int | None]:
    try:
        output, _ = process.communicate(timeout=limit_s)
        return output.decode(errors="replace"), process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        output, _ = process.communicate(timeout=_KILLED_S)
    except subprocess.TimeoutExpired as late:
        output = late.stdout or b""
    return output.decode(errors="replace"), None
