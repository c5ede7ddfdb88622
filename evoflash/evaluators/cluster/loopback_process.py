"""The process of a private cluster, with a scheduler and the nannies of its workers. Searches nothing.

It listens on loopback alone, says its address in one line, and ends when its standard input does: with the
search that started it, however that ends.
"""

import asyncio
import json
import signal
import sys
from typing import Any

from evoflash.evaluators.cluster.connection import distributed
from evoflash.evaluators.cluster.serving import configure_dask, nanny

_HOST = "127.0.0.1"
_CLOSE_S = 2  # for each worker; less than loopback.py gives all of them

Offer = tuple[dict[str, str], dict[str, float]]  # environment and resources of a worker


def main() -> None:
    """Serve the workers that the argument asks for, as JSON."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with configure_dask():
        asyncio.run(_serve(json.loads(sys.argv[1])))


async def _serve(offers: list[Offer]) -> None:
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
        await asyncio.gather(*(each.close(timeout=_CLOSE_S) for each in made), return_exceptions=True)


async def _wait_for_input_end() -> None:
    """A thread would keep the interpreter from ending; the loop watches the pipe."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


def _say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
