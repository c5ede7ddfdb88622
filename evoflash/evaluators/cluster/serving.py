"""Makes this machine a worker of a cluster: a Dask worker, kept alive by its nanny. Decides nothing.

What a worker is asked is in asked.py.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evoflash.errors import DeviceError
from evoflash.evaluators.cluster.address import Address, resources
from evoflash.evaluators.cluster.connection import dask, distributed, security
from evoflash.gpu.launcher import present_gpu, spec_of

log = logging.getLogger(__name__)
# Candidates use memory in processes of their own, of which Dask knows nothing: its limit would be none.
_NANNY: dict[str, Any] = {
    "memory_limit": 0,
    "dashboard_address": "127.0.0.1:0",
    "preload": ["evoflash.evaluators.cluster.preload"],
}
_JOIN_S = 30  # that a scheduler has to answer, at first and when it was gone


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


def nanny(url: str, offer: dict[str, float], **more: Any) -> Any:
    """Dask's nanny of a worker, with a thread for each question that the offer has room for; not started."""
    return distributed.Nanny(url, resources=offer, nthreads=int(max(offer.values())), **_NANNY, **more)


async def _serve(address: Address, offer: dict[str, float]) -> None:
    while True:
        joined = await _join(address, offer)
        try:
            await joined.finished()
        finally:
            await joined.close(timeout=2, reason="evoflash-worker-ends")
        log.warning("the scheduler %s is gone: waiting %d s for it.", address.url, _JOIN_S)


async def _join(address: Address, offer: dict[str, float]) -> Any:
    secure = security(address.certificate)
    host = {} if secure else {"host": "127.0.0.1"}  # loopback only, unless TLS guards what listens
    try:
        return await nanny(address.url, offer, security=secure, **host)
    except (OSError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DeviceError(
            f"the scheduler {address.url} cannot be joined ({reason[:120]}): start it with `dask scheduler`, "
            "or correct the address, the port and --tls."
        ) from None
