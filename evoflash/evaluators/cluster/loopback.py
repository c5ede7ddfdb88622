"""A private cluster on this machine, in a process of its own (loopback_process.py), started and ended.

The search process sends and receives, and schedules nothing.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.address import Address, resources

_PROCESS = "evoflash.evaluators.cluster.loopback_process"
_STARTS_S = 120.0  # for all its workers, on a busy machine
_CLOSE_S = 3.5  # less than app/search/stopping.py gives a command to end


@contextmanager
def private_cluster(
    *, cores: int = 0, gpus: Sequence[str] = (), model: str | None = None
) -> Iterator[Address]:
    """Its scheduler's address. `gpus` are what CUDA_VISIBLE_DEVICES may hold, one for each worker that gets
    a GPU of the model; `cores` workers have none. DeviceError where they cannot be started.
    """
    no_gpu: dict[str, str] = {}
    offers = [(no_gpu, resources(gpu=None))] * cores
    offers += [({"CUDA_VISIBLE_DEVICES": gpu}, resources(gpu=model)) for gpu in gpus]
    process = subprocess.Popen(
        [sys.executable, "-m", _PROCESS, json.dumps(offers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        process_group=0,  # Ctrl-C at the terminal is the search's
    )
    try:
        yield Address(_url(process), is_here=True)
    finally:
        _close(process)


def _url(process: "subprocess.Popen[bytes]") -> str:
    """What the process says once its workers are there: {"url": ...}, or {"error": ...}."""
    assert process.stdout is not None, "it is a pipe"
    said, deadline_s = b"", time.monotonic() + _STARTS_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n") and selector.select(max(0.0, deadline_s - time.monotonic())):
            if not (more := os.read(process.stdout.fileno(), 4096)):
                break
            said += more
    answer = json.loads(said) if said.endswith(b"\n") else {}
    if "url" not in answer:
        reason = answer.get("error", f"its process said nothing in {_STARTS_S:.0f} s")
        raise DeviceError(
            f"the workers of this machine could not be started ({reason[:120]}): see `evoflash doctor`, or "
            "search with fewer."
        )
    return str(answer["url"])


def _close(process: "subprocess.Popen[bytes]") -> None:
    """End the workers: in good order where they do so in time, by SIGKILL elsewhere. They hold nothing, and
    end when the process does that watches them.
    """
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_CLOSE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
