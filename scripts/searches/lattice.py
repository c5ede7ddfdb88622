"""A lattice: some genes of a family with some of their values, on one problem and GPU. Evaluates nothing.

    python -m scripts.searches.lattice scripts/searches/lattices/*.toml

counts the valid genomes of lattice files. A file names `problem`, `gpu` and `family`, in `[fixed]` genes that
keep one value, and in `[genes]` those that vary, with their values. Genes that it does not name keep their
family's first value. Every valid combination is a genome of the lattice.
"""

import argparse
import itertools
import math
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evoflash.kernels.family import Family, load_family
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, Param, SearchSpace, Value
from evoflash.specs import GpuSpec, load_gpu


@dataclass(frozen=True, slots=True)
class Lattice:
    """What a lattice file says, read and checked."""

    name: str
    problem: Problem
    gpu: GpuSpec
    family: Family
    fixed: Mapping[str, Value]
    genes: Mapping[str, Sequence[Value]]

    @property
    def space(self) -> SearchSpace:
        """The family's space on the problem and the GPU."""
        return self.family.space(self.problem.compile_keys(self.gpu.arch), self.gpu)

    @property
    def combinations(self) -> int:
        """Of the values, valid or not; those that differ only in inactive genes count each."""
        return math.prod(len(values) for values in self.genes.values())


def read_lattice(path: Path) -> Lattice:
    """The lattice of a file. UsageError for what is no problem, GPU, family, gene or value."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    gpu, family = load_gpu(table["gpu"]), load_family(table["family"])
    problem = parse_problem(table["problem"])
    lattice = Lattice(path.stem, problem, gpu, family, table["fixed"], table["genes"])
    for name, values in lattice.genes.items():
        for value in values:
            lattice.space.genome({**lattice.fixed, name: value})
    return lattice


def genomes(lattice: Lattice, *, seed: int = 0) -> list[Genome]:
    """Every valid genome once, in an order drawn from the seed: each beginning of it is a random sample."""
    space = lattice.space
    combined = itertools.product(*lattice.genes.values())
    points = (space.genome({**lattice.fixed, **dict(zip(lattice.genes, p, strict=True))}) for p in combined)
    valid = [genome for genome in dict.fromkeys(points) if space.is_valid(genome)]
    order = np.random.default_rng(seed).permutation(len(valid))
    return [valid[at] for at in order]


def params_of(lattice: Lattice, found: Iterable[Genome]) -> tuple[Param, ...]:
    """The family's params with those of their values that these genomes have, in the family's order."""
    used: dict[str, set[Value]] = {}
    for genome in found:
        for name, value in genome.values:
            used.setdefault(name, set()).add(value)
    return tuple(
        Param(param.name, tuple(value for value in param.values if value in used[param.name]))
        for param in lattice.family.params
        if param.name in used
    )


def main() -> int:
    """Count the valid genomes, and their structural cores, of the lattices given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    for path in parser.parse_args().files:
        lattice = read_lattice(path)
        found = genomes(lattice)
        cores = len({lattice.family.core(genome) for genome in found})
        print(
            f"{lattice.name}: {lattice.problem} on {lattice.gpu.name}, {lattice.family.name}: {len(found)} "
            f"valid genomes of {cores} structural cores, {lattice.combinations} combinations."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
