"""A private cluster on this machine: a scheduler in this process, and a worker process for each GPU or core.

It listens on loopback alone and ends with this process, however that ends. The processes are spawned, so a
script that starts one needs the usual `if __name__ == "__main__"`.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.address import Address
from evoflash.evaluators.cluster.code import resources
from evoflash.evaluators.cluster.engine import distributed
from evoflash.evaluators.cluster.serving import NANNY, configured

_HOST = "127.0.0.1"
_CLOSE_S = 3  # less than commands/termination.py gives a command to end


@contextmanager
def private_cluster(
    *, cores: int = 0, gpus: Sequence[str] = (), model: str | None = None
) -> Iterator[Address]:
    """Its scheduler's address. `gpus` are what CUDA_VISIBLE_DEVICES may hold, one for each worker that gets
    a GPU of the model; `cores` workers have none.
    """
    no_gpu: dict[str, str] = {}
    offers = [(no_gpu, resources(gpu=None))] * cores
    offers += [({"CUDA_VISIBLE_DEVICES": gpu}, resources(gpu=model)) for gpu in gpus]
    with configured():
        cluster = _started({at: _worker(env, offer) for at, (env, offer) in enumerate(offers)})
        try:
            yield Address(cluster.scheduler_address)
        finally:
            _close(cluster)


def _close(cluster: Any) -> None:
    """End the workers: in good order where they do so in time, by SIGKILL elsewhere. They hold nothing."""
    pids = [nanny.pid for nanny in cluster.workers.values()]
    try:
        cluster.close(timeout=_CLOSE_S)
    except TimeoutError:
        for pid in pids:
            with suppress(ProcessLookupError, TypeError):  # it is gone, or was never there
                os.kill(pid, signal.SIGKILL)
        with suppress(TimeoutError):
            cluster.close(timeout=1)


def _worker(env: dict[str, str], offer: dict[str, float]) -> dict[str, Any]:
    options = {**NANNY, "env": env, "resources": offer, "host": _HOST}
    return {"cls": distributed.Nanny, "options": options}


def _started(workers: dict[int, dict[str, Any]]) -> Any:
    options = {"host": _HOST, "port": 0, "dashboard": False, "dashboard_address": f"{_HOST}:0"}
    scheduler = {"cls": distributed.Scheduler, "options": options}
    try:
        return distributed.SpecCluster(workers=workers, scheduler=scheduler, name=f"evoflash-{os.getpid()}")
    except (OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f"the workers of this machine could not be started ({reason[:120]}): see `evoflash doctor`, or "
            "search with fewer."
        ) from None
