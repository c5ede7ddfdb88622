"""Finds an operation by its name; the only place that knows where operations are. Loads them when asked.

Modules are named and not imported here, so that no package depends on what one operation knows.
"""

import importlib
from functools import cache

from evoflash.errors import UsageError
from evoflash.operation import CompileKey, Operation, Workload
from evoflash.settings.values import held

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
    """Modules by operation: the shipped ones, and those of the setting `operations` ("name=module,...").

    A setting reaches worker processes too; the module must be importable in them.
    """
    setting, found = held("operations"), {}
    for entry in filter(None, (setting.value or "").split(",")):
        name, _, module = (part.strip() for part in entry.partition("="))
        if not name or not module:
            raise UsageError(f"{setting.source}: '{entry}': write name=module, with commas between.")
        found[name] = module
    return found | _SHIPPED


@cache
def _load(module: str) -> Operation:
    try:
        operation: Operation = importlib.import_module(module).OPERATION
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the operation in {module} cannot be loaded ({error}): it must be importable and have OPERATION."
        ) from None
    return operation
