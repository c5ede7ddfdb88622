"""The functions that workers without a GPU run: a call in a disposable process of the worker's own.

They run in the one thread of a Dask worker. What a genome does to the disposable process does not reach the
worker; one that takes the whole worker with it all the same is blamed in connection.py.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from evoflash.evaluators.cluster.cubins import Parcel, pack_prepared
from evoflash.evaluators.prepare import Prepared
from evoflash.isolation import Ending, IsolatedPool


@cache
def _processes() -> IsolatedPool:
    return IsolatedPool(1)


def end() -> None:
    """Kill the disposable process, if there is one."""
    if _processes.cache_info().currsize:
        _processes().close()


def called(function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float) -> Parcel[Ending[Any]]:
    """The call's ending, as on one machine; builds bring their cubins with them."""
    ending = _processes().submit(function, *arguments, timeout_s=timeout_s).result()
    return pack_prepared(ending) if isinstance(ending.value, Prepared) else Parcel(ending, {})
