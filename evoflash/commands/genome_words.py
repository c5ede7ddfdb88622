"""A genome in few words: where it differs from a seed, and the command that exports it. Reads only."""

from evoflash.commands.options import db_words, is_verbose
from evoflash.errors import EvoflashError
from evoflash.families.family import load_family
from evoflash.gpu import load_gpu
from evoflash.operation import CompileKey, Workload
from evoflash.problem import Problem, parse_problem
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


def export_commands(genome: Genome, problem: str, gpu: str, *, is_known: bool = True) -> list[str]:
    """The commands that export it, one for each kernel that its problem needs.

    `is_known`: the id is enough, because it was evaluated for one problem and GPU only.
    """
    parts = one_kernel_each(problem, load_gpu(gpu).arch)
    base = f"evoflash export {genome.id}{db_words()}"
    if len(parts) == 1 and is_known:
        return [base]
    return [f"{base} --problem {part} --gpu {gpu}" for part in parts]


def one_kernel_each(problem: str, arch: str) -> list[Problem]:
    """The problem's workloads, divided into those that one compiled kernel serves."""
    groups: dict[CompileKey, list[Workload]] = {}
    for workload in parse_problem(problem).workloads:
        groups.setdefault(workload.compile_key(arch), []).append(workload)
    return [Problem(tuple(workloads)) for workloads in groups.values()]
