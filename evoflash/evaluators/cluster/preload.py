"""What a worker process does before its first task and after its last, so that nothing outlives it.

Ctrl-C at the terminal is the search's or the command's to hear, and the processes that a worker has started
end with it. Dask loads this module by its name and calls its functions (docs.dask.org, "Customize
Initialization").
"""

import os
import signal
import sys

_STARTERS = ("evoflash.evaluators.cluster.asked", "evoflash.evaluators.cluster.asked")


def dask_setup(worker: object) -> None:
    """Leave the terminal's process group and ignore its Ctrl-C; the nanny ends the process in good order."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)


def dask_teardown(worker: object) -> None:
    """End what the worker has started: Python would wait for it."""
    del worker
    for name in _STARTERS:
        if name in sys.modules:
            sys.modules[name].end()
