"""The door to Dask's `distributed`: imported here alone, with one line for who has not installed it."""

import os
from typing import Any

from evoflash.errors import UsageError

os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")  # what matters is said in one line of ours
try:
    import dask as _dask
    import distributed as _distributed
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker
except ImportError as error:
    raise UsageError(
        f"several GPUs or machines need Dask ({str(error)[:80]}): run `pip install 'evoflash[cluster]'`."
    ) from None

__all__ = ["CommClosedError", "FutureCancelledError", "KilledWorker", "dask", "distributed"]

# Typed in part: what is used of it is used as untyped.
dask: Any = _dask
distributed: Any = _distributed
