"""One genome for each way in which kernels are launched, to export and to launch."""

import tomllib

from places import TESTS

from evoflash.champions import read_champions
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.family import load_family
from evoflash.paths import CHAMPIONS
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

# Family, problem and the genes that matter; the family's first values for all others.
CASES = tomllib.loads((TESTS / "exports" / "cases.toml").read_text(encoding="utf-8"))
LINEAR_CASES = tomllib.loads((TESTS / "exports" / "linear_cases.toml").read_text(encoding="utf-8"))


def exported(name: str, gpu: str = "h200") -> ExportRequest:
    """The case of that name."""
    family, text, values = ({**CASES, **LINEAR_CASES}[name][what] for what in ("family", "problem", "values"))
    problem, spec = parse_problem(text), load_gpu(gpu)
    space = load_family(family).space(problem.compile_keys(spec.arch), spec)
    usual = {param.name: param.values[0] for param in space.params}
    seeds = load_family(family).seeds_for(problem, space, spec)
    bases = [usual, *(seed.as_dict() for seed in seeds)]
    candidates = (space.genome({**usual, **base, **values}) for base in bases)
    genome = next(each for each in candidates if space.is_valid(each) and has(each, values))
    return ExportRequest(genome, problem, spec)


def has(genome, values) -> bool:
    """Whether the genes are active, and have these values."""
    return values.items() <= genome.as_dict().items()


def champion(problem: str) -> ExportRequest:
    """The archive's kernel for an H200."""
    what, spec = parse_problem(problem), load_gpu("h200")
    found = next(c for c in read_champions(CHAMPIONS / "h200.toml") if c.problem == str(what))
    space = load_family(found.genome.family).space(what.compile_keys(spec.arch), spec)
    return ExportRequest(space.genome(found.genome.as_dict()), what, spec)
