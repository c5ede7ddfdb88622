"""One genome for each way in which kernels are launched, to export and to launch."""

from evoflash.champions import read_champions
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.family import load_family
from evoflash.paths import CHAMPIONS
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

# Family, problem and the genes that matter; the family's first values for all others.
CASES = {
    "plain": ("flash_simt", "b=2,h=4,hkv=2,sq=100,skv=200,d=64,dtype=fp16", {}),
    "static shared memory": (
        "flash_simt",
        "b=2,h=4,hkv=2,sq=100,skv=200,d=64,dtype=bf16",
        {"kv_home": "smem"},
    ),
    "wmma": ("flash_wmma", "b=2,h=4,hkv=4,sq=100,skv=200,d=64,dtype=fp16,causal", {}),
    "workspace and two launches": (
        "flash_mma",
        "b=2,h=8,hkv=2,sq=64,skv=999,d=128,dtype=fp16",
        {"kv_splits": 2},
    ),
    "heads first": (
        "flash_mma",
        "b=2,h=8,hkv=2,sq=64,skv=999,d=64,dtype=bf16",
        {"tile_order": "heads_first"},
    ),
    "persistent": (
        "flash_mma",
        "b=3,h=8,hkv=8,sq=640,skv=640,d=64,dtype=fp16,causal",
        {"schedule": "persistent"},
    ),
    "direct": ("flash_direct", "b=1,h=8,hkv=8,sq=128,skv=128,d=64,dtype=fp16", {}),
    "tensor maps": ("flash_wgmma", "b=1,h=32,hkv=8,sq=1000,skv=2000,d=128,dtype=bf16,causal", {}),
    "tensor maps and a cluster": (
        "flash_wgmma",
        "b=2,h=16,hkv=16,sq=1000,skv=1000,d=64,dtype=fp16",
        {"cluster": 2},
    ),
    "dynamic and zeroed": (
        "flash_wgmma",
        "b=2,h=16,hkv=16,sq=1000,skv=1000,d=128,dtype=fp16,causal",
        {"producer": "warpgroup", "schedule": "dynamic"},
    ),
    "splits and tensor maps": (
        "flash_wgmma",
        "b=2,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=fp16",
        {"kv_splits": 8},
    ),
    "cluster": ("flash_cluster", "b=2,h=8,hkv=8,sq=256,skv=256,d=64,dtype=fp16", {}),
}


def exported(name: str, gpu: str = "h200") -> ExportRequest:
    """The case of that name."""
    family, text, values = CASES[name]
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
