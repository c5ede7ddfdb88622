"""Finds an operation by its name; the only place that knows where operations are. Loads them when asked.

Modules are named and not imported here, so that no package depends on what one operation knows.
"""

import importlib
import os
from functools import cache

from evoflash.errors import UsageError
from evoflash.operation import CompileKey, Operation, Workload

DEFAULT = "attention"  # of problems and templates that name none
_SHIPPED = {"attention": "evoflash.attention.operation"}


def load(name: str) -> Operation:
    """The operation of that name, `OPERATION` of its module. UsageError lists the known ones."""
    modules = _modules()
    if name not in modules:
        raise UsageError(f"no operation is called '{name}': known are {', '.join(sorted(modules))}.")
    return _load(modules[name])


def operation_of(what: Workload | CompileKey) -> Operation:
    """The operation of a workload or of a compile key."""
    return load(what.operation)


def default() -> Operation:
    """The operation of problems and templates that name none."""
    return load(DEFAULT)


def _modules() -> dict[str, str]:
    """Modules by operation: the shipped ones, and those that EVOFLASH_OPERATIONS adds ("name=module,...").

    An environment variable reaches worker processes too; the module must be importable in them.
    """
    own = (entry.partition("=") for entry in os.environ.get("EVOFLASH_OPERATIONS", "").split(",") if entry)
    return {name.strip(): module.strip() for name, _, module in own} | _SHIPPED


@cache
def _load(module: str) -> Operation:
    operation: Operation = importlib.import_module(module).OPERATION
    return operation
