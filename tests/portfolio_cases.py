"""Tables of made-up times, for the tests of `evoflash portfolio`: nothing in them was measured."""

import importlib.util
from pathlib import Path

import pytest

from evoflash.app.portfolio.run import PortfolioOptions, PortfolioResult, portfolio
from evoflash.app.portfolio.table import KernelTime, ShapeTimes, TimeTable, write_table
from evoflash.app.shape_files import Shape
from evoflash.evaluation import Basis
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem, parse_workload
from evoflash.specs import load_gpu

needs_torch = pytest.mark.skipif(  # asks for its place alone: importing it would take seconds
    importlib.util.find_spec("torch") is None, reason="the package is for PyTorch, which is not installed"
)
SHAPES = ("b=1,h=8,s=128,d=64", "b=1,h=8,s=1024,d=64", "b=4,h=8,sq=1,skv=4096,d=64")


def kernels(count):
    """So many valid genomes of one family on an L4."""
    family, gpu = load_family("flash_simt"), load_gpu("l4")
    space = family.space(parse_problem("mission").compile_keys(gpu.arch), gpu)
    found = {}
    for block_n in family.params[[p.name for p in family.params].index("block_n")].values:
        for seed in family.seeds:
            genome = space.genome({**seed.values, "block_n": block_n})
            found[genome.id] = genome
    return tuple(found.values())[:count]


def time_of(us, *, is_rough=False, is_checked=True):
    return KernelTime(us, us, us, 3 if is_rough else 20, is_rough=is_rough, is_checked=is_checked)


def table_of(times_us, shapes=SHAPES, basis=Basis.MEASURED, gpu="l4"):
    """A row for each shape; None is a kernel that does not compute it."""
    found = kernels(len(times_us[0]))
    rows = []
    for problem, row in zip(shapes, times_us, strict=True):
        timed = {genome.id: time_of(us) for genome, us in zip(found, row, strict=True) if us is not None}
        absent = {
            genome.id: "not valid for this head dimension"
            for genome, us in zip(found, row, strict=True)
            if us is None
        }
        rows.append(ShapeTimes(parse_workload(problem), timed, absent, {"sdpa_flash": 50.0}))
    return TimeTable(gpu, basis, found, tuple(rows), environment={"date": "2026-11-23"})


def chosen_from(table, folder, *, kernels=2, shapes=SHAPES, weights=None) -> PortfolioResult:
    """What the command chooses from the table alone."""
    lines = [
        f"{problem} weight={weight}"
        for problem, weight in zip(shapes, weights or [1] * len(shapes), strict=True)
    ]
    mix, path = Path(folder) / "mix.txt", Path(folder) / "table.json"
    mix.write_text("\n".join(lines))
    write_table(path, table)
    return portfolio(
        PortfolioOptions(
            mix,
            kernels,
            gpu=None,
            evaluator=None,
            minutes=1.0,
            candidates=8,
            table=path,
            seed=0,
            db=str(Path(folder) / "none.db"),
        )
    )


def shape(problem, weight=1.0):
    return Shape(parse_workload(problem), weight)
