"""A genome in few words: where it differs from a seed. Reads only."""

from evoflash.commands.options import is_verbose
from evoflash.errors import EvoflashError
from evoflash.families.family import load_family
from evoflash.gpu import load_gpu
from evoflash.problem import parse_problem
from evoflash.space import Genome, Value


def values_line(genome: Genome, problem: str, gpu: str) -> str:
    """The values that the nearest seed of the family does not have; all of them with -v or without a seed."""
    mine, seed = genome.as_dict(), None if is_verbose() else _nearest_seed(genome, problem, gpu)
    if seed is None:
        return f"values    {_words(mine)}"
    if genome.values == seed.values:
        return f"values    those of seed {seed.id}"
    same = set(seed.values) & set(genome.values)
    others = {name: value for name, value in genome.values if (name, value) not in same}
    agree = f"{len(same)} of {len(mine)} as in seed {seed.id[:8]}"
    return f"values    {_words(others or mine)} ({agree}; -v shows all)"


def _words(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _nearest_seed(genome: Genome, problem: str, gpu: str) -> Genome | None:
    """The seed that shares most values; None where the family has none for this, or is not here."""
    try:
        family, what, spec = load_family(genome.family), parse_problem(problem), load_gpu(gpu)
        seeds = family.seeds_for(what, family.space(what.compile_keys(spec.arch), spec), spec)
    except EvoflashError:
        return None
    return max(seeds, key=lambda seed: len(set(seed.values) & set(genome.values)), default=None)
