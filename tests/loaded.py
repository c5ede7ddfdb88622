"""Loads what evoflash's commands load late, for a process that forks for each of them. Runs none."""

import gc
import pkgutil
from contextlib import suppress
from importlib import import_module

from evoflash.cli.program import app
from evoflash.kernels.family import known_families, load_family
from evoflash.paths import DB
from evoflash.store.database import _first_statements

# All but what needs a GPU or CuPy: some commands must do without them.
PACKAGES = (
    *("cli", "app", "views", "store", "strategies", "replay", "exports", "champions"),
    *("emulator", "kernels", "operations", "perf_model", "validation"),
)


def load_commands() -> None:
    for package in PACKAGES:
        folder = import_module(f"evoflash.{package}")
        for module in pkgutil.walk_packages(folder.__path__, f"evoflash.{package}."):
            with suppress(ImportError):  # an extra that is not installed here
                import_module(module.name)
    # The program, and what reads its options: a third of what a short command takes. The same for families'
    # headers, and for what the migrations make of a new database.
    app().make_context("evoflash", ["runs"])
    for family in known_families():
        load_family(family)
    _first_statements(DB)
    gc.collect()
    gc.freeze()  # else the next collection copies all that is loaded into each process
