"""Shows for every gene that it changes what runs: adjacent values are compiled until one genome differs.

A gene that changes neither machine code nor launches is inert: a search would spend its budget on names. A
pair counts as real when, among 20 seeded genomes in which the gene is active and both values are valid, one
gives another kernel or another launch under each value. Times nothing.

    python -m scripts.families.inert_genes -o scripts/families/records/inert-genes.json
"""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache
from pathlib import Path

from evoflash.evaluation import Candidate
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import Family, known_families, load_family
from evoflash.kernels.nvrtc import compile_candidate, nvrtc_version
from evoflash.kernels.renderer import render
from evoflash.numerics import stream_of
from evoflash.operations.attention.workload import AttentionKey
from evoflash.space import Genome, Param, Value
from evoflash.specs import GpuSpec, load_gpu
from scripts.families.draws import USUAL_HEAD_DIMS, draw_key, draw_quickly, space_of, workload_of
from scripts.records import command, write_record

GENOMES = 20
_DRAWS = 2000  # genomes looked through for those in which a gene is active and both values are valid
_LIMIT_S = 900.0
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one pair of adjacent values."""

    family: str
    version: int
    gene: str
    values: tuple[Value, Value]
    differs: str  # "code", "launch", "code and launch", or "" for a pair that shows nothing
    genomes: int  # looked at until one differed, or in all
    first: str = ""  # the genome that differs, at values[0]
    key: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One genome under both values of a pair."""

    key: AttentionKey
    low: Genome
    high: Genome


def adjacent(param: Param) -> list[tuple[Value, Value]]:
    """The pairs of neighbours in the order in which the header lists the values."""
    return list(itertools.pairwise(param.values))


class Pool:
    """Seeded genomes of a family over many compile keys, drawn as far as anybody looks."""

    def __init__(
        self, family: Family, gpu: GpuSpec, *, seed: int, head_dims: tuple[int, ...] = USUAL_HEAD_DIMS
    ) -> None:
        self._family, self._gpu, self._head_dims = family, gpu, head_dims
        self._rng = stream_of(seed, family.name)
        self._drawn: list[tuple[AttentionKey, Genome]] = []

    def __iter__(self) -> Iterator[tuple[AttentionKey, Genome]]:
        for at in range(_DRAWS):
            if at == len(self._drawn):
                self._drawn.append(self._draw())
            yield self._drawn[at]

    def _draw(self) -> tuple[AttentionKey, Genome]:
        while True:  # a key that leaves no genome is drawn again
            key = draw_key(self._family, self._gpu, self._rng, usual=True)
            if key.head_dim not in self._head_dims:
                continue
            if genome := draw_quickly(self._family, key, self._gpu, self._rng):
                return key, genome

    def settings(self, gene: str, values: tuple[Value, Value], *, count: int = GENOMES) -> Iterator[Setting]:
        """Up to `count` genomes in which the gene is active, valid under both values."""
        found = (self._setting(key, genome, gene, values) for key, genome in self)
        return itertools.islice((each for each in found if each is not None), count)

    def _setting(
        self, key: AttentionKey, genome: Genome, gene: str, values: tuple[Value, Value]
    ) -> Setting | None:
        if gene not in genome.as_dict():
            return None
        space = space_of(self._family, key, self._gpu)
        low, high = (space.genome({**genome.as_dict(), gene: value}) for value in values)
        return Setting(key, low, high) if space.is_valid(low) and space.is_valid(high) else None


def examine(family: Family, gpu: GpuSpec, pool: Pool, gene: str, values: tuple[Value, Value]) -> Finding:
    """Looks for a genome in which the pair makes a difference."""
    seen = 0
    for seen, setting in enumerate(pool.settings(gene, values), start=1):
        if differs := _difference(family, gpu, setting):
            shown = str(setting.low), str(setting.key)
            return Finding(family.name, family.version, gene, values, differs, seen, *shown)
    return Finding(family.name, family.version, gene, values, "", seen)


def _difference(family: Family, gpu: GpuSpec, setting: Setting) -> str:
    low, high = (render(genome, setting.key, gpu) for genome in (setting.low, setting.high))
    workload = workload_of(setting.key)
    launches = [family.launches(genome, workload, gpu) for genome in (setting.low, setting.high)]
    launch = "launch" if launches[0] != launches[1] else ""
    if _program(low) == _program(high):
        return launch
    builds = [compile_candidate(candidate) for candidate in (low, high)]
    if not all(build.ok for build in builds):
        return ""  # a pair that does not compile shows nothing
    code = "code" if builds[0].text_sha != builds[1].text_sha else ""
    return " and ".join(filter(None, (code, launch)))


def _program(candidate: Candidate) -> str:
    """The text without comments and white space: the banner names the genome, so two texts never agree."""
    return "".join(_COMMENT.sub("", candidate.source).split())


@cache
def _pool(name: str, gpu_name: str, seed: int, head_dims: tuple[int, ...]) -> Pool:
    return Pool(load_family(name), load_gpu(gpu_name), seed=seed, head_dims=head_dims)


def examine_gene(name: str, gene: str, gpu_name: str, seed: int, briefly: bool) -> list[Finding]:
    """All pairs of a gene, or briefly the last one at head_dim 64; in a worker process."""
    family, gpu = load_family(name), load_gpu(gpu_name)
    pool = _pool(name, gpu_name, seed, USUAL_HEAD_DIMS[:1] if briefly else USUAL_HEAD_DIMS)
    param = next(param for param in family.params if param.name == gene)
    pairs = adjacent(param)
    return [examine(family, gpu, pool, gene, pair) for pair in (pairs[-1:] if briefly else pairs)]


def genes_of(names: Iterable[str]) -> list[tuple[str, str]]:
    """(family, gene) of every gene with a choice of values."""
    return [(name, p.name) for name in names for p in load_family(name).params if len(p.values) > 1]


def examine_genes(
    genes: Sequence[tuple[str, str]], *, gpu: str, seed: int, workers: int, briefly: bool = False
) -> list[Finding]:
    """Every pair of the genes, in worker processes; briefly as examine_gene() says."""
    with IsolatedPool(workers) as pool:
        futures = [pool.submit(examine_gene, *each, gpu, seed, briefly, timeout_s=_LIMIT_S) for each in genes]
        endings = [future.result() for future in futures]
    for (name, gene), ending in zip(genes, endings, strict=True):
        if ending.value is None:
            raise SystemExit(f"{name}.{gene}: {ending.reason}")
    return [finding for ending in endings for finding in ending.value or ()]


def complaint(finding: Finding) -> str:
    """One line about a pair that shows nothing; empty for a real one."""
    if finding.differs:
        return ""
    pair = f"{finding.family}.{finding.gene} {finding.values[0]} / {finding.values[1]}"
    if not finding.genomes:
        return f"{pair}: no genome is valid under both"
    return f"{pair}: the same machine code and launches in {finding.genomes} genomes"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", default="all", help="names with commas between them, or all")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> int:
    """Examine, write the file, and name what is inert."""
    args = _arguments()
    names = known_families() if args.families == "all" else tuple(args.families.split(","))
    findings = examine_genes(genes_of(names), gpu=args.gpu, seed=args.seed, workers=args.workers)
    record = {
        "command": command(),
        "date": date.today().isoformat(),
        "arch": load_gpu(args.gpu).arch,
        "nvrtc": nvrtc_version(),
        "seed": args.seed,
        "genomes": GENOMES,
        "families": {name: load_family(name).version for name in names},
        "inert": sum(not finding.differs for finding in findings),
        "pairs": [asdict(finding) for finding in findings],
    }
    if args.output:
        write_record(args.output, record)
    complaints = [line for finding in findings if (line := complaint(finding))]
    print("\n".join([*complaints, f"{len(findings)} pairs, {len(complaints)} inert"]))
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
