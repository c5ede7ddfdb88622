"""Makes this machine a worker of a cluster, or a private cluster of its own. Decides nothing.

A worker is Dask's, kept alive by its nanny; what it is asked is in tasks.py. A private cluster is a process
(this module, run as a program) with a scheduler and the nannies of its workers. It listens on loopback alone,
says its address in one line, and ends when its standard input does: with the search that started it, however
that ends. The search process sends and receives, and schedules nothing.
"""

import asyncio
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.address import Address, resources
from evoflash.evaluators.cluster.connection import dask, distributed, security
from evoflash.gpu.launcher import present_gpu, spec_of

log = logging.getLogger(__name__)
Offer = tuple[Mapping[str, str], Mapping[str, float]]  # environment and resources of a worker
_NAME = "evoflash.evaluators.cluster.serving"
# Candidates use memory in processes of their own, of which Dask knows nothing: its limit would be none.
_NANNY: dict[str, Any] = {
    "memory_limit": 0,
    "dashboard_address": "127.0.0.1:0",
    "preload": [_NAME],
}
_JOIN_S = 30  # that a scheduler has to answer, at first and when it was gone
_HOST = "127.0.0.1"
_STARTS_S = 120.0  # for all workers of a private cluster, on a busy machine
_CLOSE_S = 3.5  # less than app/search/stopping.py gives a command to end
_CLOSE_WORKER_S = 2  # less than _CLOSE_S, which is for all of them


@contextmanager
def configure_dask() -> Iterator[None]:
    """Dask as a worker that starts processes of its own needs it: daemons may not have children."""
    settings = {
        "distributed.worker.daemon": False,
        "distributed.worker.profile.enabled": False,
        "distributed.comm.timeouts.connect": f"{_JOIN_S}s",
    }
    with dask.config.set(settings):
        yield


def model_of(gpu: str) -> str:
    """Let this process and its own see one GPU of the machine alone, by its number or UUID; its name in
    evoflash. DeviceError where it is not there, UsageError where evoflash does not know it.
    """
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    return spec_of(present_gpu()).name


def serve(address: Address, *, model: str | None = None) -> None:
    """Work for the searches of a scheduler until it stays away or this process is told to end.

    `model` is the name of the GPU that this process sees; without one it compiles and emulates. DeviceError
    where no scheduler answers, or none comes back.
    """
    with configure_dask():
        asyncio.run(_serve(address, resources(gpu=model)))


def nanny(url: str, offer: Mapping[str, float], **more: Any) -> Any:
    """Dask's nanny of a worker, with a thread for each question that the offer has room for; not started."""
    return distributed.Nanny(url, resources=offer, nthreads=int(max(offer.values())), **_NANNY, **more)


async def _serve(address: Address, offer: Mapping[str, float]) -> None:
    while True:
        joined = await _join(address, offer)
        try:
            await joined.finished()
        finally:
            await joined.close(timeout=2, reason="evoflash-worker-ends")
        log.warning("the scheduler %s is gone: waiting %d s for it.", address.url, _JOIN_S)


async def _join(address: Address, offer: Mapping[str, float]) -> Any:
    secure = security(address.certificate)
    host = {} if secure else {"host": _HOST}  # loopback only, unless TLS guards what listens
    try:
        return await nanny(address.url, offer, security=secure, **host)
    except (OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f"the scheduler {address.url} cannot be joined ({reason[:120]}): start it with `dask scheduler`, "
            "or correct the address, the port and --tls."
        ) from None


def dask_setup(worker: object) -> None:
    """Before a worker's first task, called by Dask (docs.dask.org, "Customize Initialization"): leave the
    terminal's process group and ignore its Ctrl-C, which is the search's or the command's to hear; the nanny
    ends the process in good order.
    """
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)


def dask_teardown(worker: object) -> None:
    """After its last: end the processes that it has started. Python would wait for them."""
    del worker
    if tasks := sys.modules.get("evoflash.evaluators.cluster.tasks"):
        tasks.end()


@contextmanager
def private_cluster(offers: Sequence[Offer]) -> Iterator[Address]:
    """The address of a scheduler with a worker for each offer. DeviceError where they cannot be started."""
    process = subprocess.Popen(
        [sys.executable, "-m", _NAME, json.dumps([*offers])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
        process_group=0,  # Ctrl-C at the terminal is the search's
    )
    try:
        yield Address(_url(process))
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


def main() -> None:
    """Serve the workers that the argument asks for, as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with configure_dask():
        asyncio.run(_serve_privately(json.loads(sys.argv[1])))


async def _serve_privately(offers: list[Offer]) -> None:
    try:
        async with distributed.Scheduler(
            host=_HOST, port=0, dashboard=False, dashboard_address=f"{_HOST}:0"
        ) as scheduler:
            await _with_workers(scheduler.address, offers)
    except (OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        _say({"error": reason})


async def _with_workers(url: str, offers: list[Offer]) -> None:
    made = [nanny(url, offer, env=env, host=_HOST) for env, offer in offers]
    try:
        await asyncio.gather(*made)
        _say({"url": url})
        await _wait_for_input_end()
    finally:
        await asyncio.gather(*(each.close(timeout=_CLOSE_WORKER_S) for each in made), return_exceptions=True)


async def _wait_for_input_end() -> None:
    """A thread would keep the interpreter from ending; the loop watches the pipe."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
