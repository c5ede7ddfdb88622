"""Draws compile keys and valid genomes from a seed, for scripts that look at whole families; builds none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from evoflash.kernels.family import Family, load_family
from evoflash.operations.attention.workload import DTYPES, HEAD_DIMS, AttentionKey, AttentionWorkload
from evoflash.operations.linear.workload import ROW_CLASSES, WEIGHTS, LinearKey
from evoflash.operations.paged.workload import FEATURES, PAGE_UNITS, PagedKey
from evoflash.operations.paged.workload import HEAD_DIMS as PAGED_HEAD_DIMS
from evoflash.operations.paged.workload import ROW_CLASSES as PAGED_ROW_CLASSES
from evoflash.space import Genome, SearchSpace
from evoflash.specs import GpuSpec, load_gpu
from evoflash.workload import CompileKey


@dataclass(frozen=True, slots=True)
class Draw:
    """A genome that was drawn under a compile key, for a GPU."""

    family: str
    genome: Genome
    key: CompileKey
    gpu: str
    seed: int = 0  # of what is to be done with it

    def as_dict(self) -> dict[str, Any]:
        """How it can be made again."""
        return {"key": str(self.key), "gpu": self.gpu, "values": self.genome.as_dict()}


USUAL_HEAD_DIMS = (64, 128)
GQA_RATIOS = (1, 4)
_OTHER_SHARE = 0.2  # of the keys have a head_dim besides the usual two, where the family takes any
_FEATURE_SHARE = 0.25  # of the keys of attention on pages have a window; as many a softcap, and so on
_GROUPS = (1, 2, 4, 5, 7, 8, 12, 16)  # query heads that share keys in pages
_TRIES = 2000  # draws without a valid genome, after which a key counts as not supported


@cache
def space_of(family: Family, key: CompileKey, gpu: GpuSpec) -> SearchSpace:
    """The family's space under one key."""
    return family.space((key,), gpu)


@cache
def other_head_dims(name: str, gpu_name: str) -> tuple[int, ...]:
    """The head dims besides the usual two for which the family has valid genomes on the GPU."""
    gpu = load_gpu(gpu_name)
    keys = {d: AttentionKey(d, "fp16", False, 1, gpu.arch) for d in HEAD_DIMS if d not in USUAL_HEAD_DIMS}
    return tuple(head_dim for head_dim, key in keys.items() if _takes(load_family(name), key, gpu))


@cache
def sums_in_half(name: str, gpu_name: str) -> bool:
    """Whether the family has genomes of its own for problems whose scores may be summed in fp16."""
    family, gpu = load_family(name), load_gpu(gpu_name)
    speaks_of_it = "accumulate" in family.path.read_text(encoding="utf-8").partition("---#}")[0]
    return speaks_of_it and _takes(family, AttentionKey(64, "fp16", False, 1, gpu.arch, "fp16"), gpu)


def _takes(family: Family, key: AttentionKey, gpu: GpuSpec) -> bool:
    space, rng = space_of(family, key, gpu), np.random.default_rng(key.head_dim)
    return any(_attempt(space, rng) is not None for _ in range(_TRIES))


def draw_key(family: Family, gpu: GpuSpec, rng: np.random.Generator, *, usual: bool = False) -> AttentionKey:
    """A compile key: head_dim 64 or 128 (at times another one, unless `usual`), dtype, mask, GQA ratio.

    A quarter of the fp16 keys lets scores be summed in fp16, where the family has genomes for that.
    """
    others = () if usual else other_head_dims(family.name, gpu.name)
    dims = others if others and rng.random() < _OTHER_SHARE else USUAL_HEAD_DIMS
    dtype = str(rng.choice(DTYPES))
    half_sums = dtype == "fp16" and rng.random() < 0.25 and sums_in_half(family.name, gpu.name)
    return AttentionKey(
        head_dim=int(rng.choice(dims)),
        dtype=dtype,
        causal=bool(rng.integers(2)),
        gqa_ratio=int(rng.choice(GQA_RATIOS)),
        arch=gpu.arch,
        accumulate="fp16" if half_sums else "fp32",
    )


def draw_paged_key(gpu: GpuSpec, rng: np.random.Generator) -> PagedKey:
    """The same of attention on pages: a fifth of other head dims, any group, rows, pages, some features."""
    dims = PAGED_HEAD_DIMS if rng.random() < _OTHER_SHARE else USUAL_HEAD_DIMS
    features = {name: bool(rng.random() < _FEATURE_SHARE) for name in FEATURES}
    return PagedKey(
        head_dim=int(rng.choice(dims)),
        dtype=str(rng.choice(DTYPES)),
        gqa_ratio=int(rng.choice(_GROUPS)),
        rows=int(rng.choice(PAGED_ROW_CLASSES)) if rng.random() < 0.5 else 1,
        page_unit=int(rng.choice(PAGE_UNITS)),
        arch=gpu.arch,
        **features,
    )


def draw_linear_key(gpu: GpuSpec, rng: np.random.Generator) -> LinearKey:
    """The same of the linear layer: weights, a class of rows, what is added, x in 8 bits where it may be."""
    weights, rows = str(rng.choice(WEIGHTS)), int(rng.choice(ROW_CLASSES))
    bias, residual, is_small = (bool(is_on) for is_on in rng.integers(2, size=3))
    x = "e4m3" if is_small and weights == "fp8b128" else "bf16"
    return LinearKey(weights, rows, gpu.arch, bias, residual, x)


# Of operations beside attention, whose keys depend on the family and on who asks.
OTHER_KEYS: dict[str, Callable[[GpuSpec, np.random.Generator], CompileKey]] = {
    "paged_attention": draw_paged_key,
    "linear": draw_linear_key,
}


def draw_quickly(family: Family, key: CompileKey, gpu: GpuSpec, rng: np.random.Generator) -> Genome | None:
    """A valid genome under the key, or None after some thousand draws.

    Not uniform: a genome with few active genes comes up more often. For tests that only need many of them.
    """
    space = space_of(family, key, gpu)
    return next((found for _ in range(_TRIES) if (found := _attempt(space, rng)) is not None), None)


def _attempt(space: SearchSpace, rng: np.random.Generator) -> Genome | None:
    genome = space.genome({p.name: p.values[int(rng.integers(len(p.values)))] for p in space.params})
    return genome if space.is_valid(genome) else None


def workload_of(key: AttentionKey, *, seq: int = 512, heads: int = 8) -> AttentionWorkload:
    """A workload that compiles to the key."""
    return key.workload(1, max(1, heads // key.gqa_ratio), seq, seq)
