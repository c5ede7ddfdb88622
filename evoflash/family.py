"""Kernel families: a template's TOML header becomes a search space and launches; renders nothing.

A family is one file, templates/<name>.cu.j2 (CONTRACTS section 2).
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from evoflash.errors import TemplateError, UsageError
from evoflash.evaluation import Launch
from evoflash.expression import Expression
from evoflash.gpu import GpuSpec, load_gpu
from evoflash.layout import template_folders
from evoflash.problem import CompileKey, Workload
from evoflash.space import Check, Genome, Param, SearchSpace, Value, Values

_HEADER = re.compile(r"\A\{#---\n(.*?)\n---#\}\n", re.DOTALL)
_SECTIONS = {
    "version",
    "arch",
    "entry",
    "params",
    "when",
    "structural",
    "blocks",
    "let",
    "check",
    "launch",
    "model",
    "seeds",
}
_ARCH = re.compile(r"sm_(\d+)([af]?)(\+?)")
_PROBE_KEY = CompileKey(64, "fp16", False, 1, "sm_90a")
_PROBE_WORKLOAD = Workload(1, 1, 1, 64, 64, 64)


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One kernel template and what its header declares."""

    name: str
    path: Path
    summary: str  # the header's first comment line
    version: int
    arch: tuple[str, ...]
    entry: str
    params: tuple[Param, ...]
    when: Mapping[str, Expression]
    structural: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    let: Mapping[str, Expression]
    check: Mapping[str, Expression]
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    smem: Expression
    seeds: Mapping[str, Values]  # named genomes that a search tries first
    uncounted: Expression  # for the performance model: warp instructions per KV tile besides the primitives

    def supports(self, gpu: GpuSpec) -> bool:
        """Whether the family's arch list admits the GPU."""
        return any(_admits(entry, gpu.arch) for entry in self.arch)

    def space(self, keys: tuple[CompileKey, ...], gpu: GpuSpec) -> SearchSpace:
        """The family's search space on a GPU: a valid genome passes the checks under every compile key."""

        @lru_cache(maxsize=64)  # all checks of one genome see the same names
        def names(values: tuple[tuple[str, Value], ...]) -> tuple[dict[str, Any], ...]:
            return tuple(self.names(dict(values), key, gpu) for key in keys)

        def holds(values: Values, *, condition: Expression) -> bool:
            return all(condition(each) for each in names(tuple(values.items())))

        checks = tuple(Check(name, partial(holds, condition=e)) for name, e in self.check.items())
        when = {name: partial(_evaluate, expression) for name, expression in self.when.items()}
        return SearchSpace(self.name, self.params, self.version, checks, when, self.blocks)

    def names(self, values: Values, key: CompileKey, gpu: GpuSpec) -> dict[str, Any]:
        """Every name that the CUDA and the expressions see: values, compile key, gpu, derived."""
        names: dict[str, Any] = {
            **values,
            "head_dim": key.head_dim,
            "dtype": key.dtype,
            "causal": key.causal,
            "gqa_ratio": key.gqa_ratio,
            "gpu": gpu,
        }
        for name, expression in self.let.items():
            names[name] = expression(names)
        return names

    def launches(self, genome: Genome, workload: Workload, gpu: GpuSpec) -> tuple[Launch, ...]:
        """What to launch for the genome on a workload, in order."""
        key = workload.compile_key(gpu.arch)
        names = self.names(genome.as_dict(), key, gpu) | {
            "batch": workload.batch,
            "heads": workload.heads,
            "seq_q": workload.seq_q,
            "seq_kv": workload.seq_kv,
        }
        grid, block = (tuple(e(names) for e in triple) for triple in (self.grid, self.block))
        return (Launch(self.entry, grid, block, self.smem(names)),)

    def core(self, genome: Genome) -> tuple[tuple[str, Value], ...]:
        """The values of the structural params: genomes with equal cores share their code blocks."""
        return tuple((name, value) for name, value in genome.values if name in self.structural)


def _evaluate(expression: Expression, values: Values) -> bool:
    return bool(expression(values))


def _admits(entry: str, arch: str) -> bool:
    wanted, have = _ARCH.fullmatch(entry), _ARCH.fullmatch(arch)
    if not wanted or not have:
        return False
    if wanted[3]:
        return int(have[1]) >= int(wanted[1])
    return entry == arch


def known_families() -> tuple[str, ...]:
    """Names of all families, the user's own included, in alphabetical order."""
    return tuple(sorted(_templates()))


def _templates() -> dict[str, Path]:
    paths = (path for folder in reversed(template_folders()) for path in folder.glob("*.cu.j2"))
    return {path.name.removesuffix(".cu.j2"): path for path in paths}


@cache
def load_family(name: str) -> Family:
    """A family by name; UsageError lists the known ones."""
    if name not in _templates():
        raise UsageError(f"no kernel family is called '{name}': known are {', '.join(known_families())}.")
    return read_family(_templates()[name])


def families_for(gpu: GpuSpec) -> tuple[Family, ...]:
    """The shipped families that run on a GPU."""
    families = (load_family(name) for name in known_families())
    return tuple(family for family in families if family.supports(gpu))


def read_family(path: Path) -> Family:
    """The family in a template file; TemplateError names file, key and expression."""
    name = path.name.removesuffix(".cu.j2")
    table, summary = _header(path)
    unknown = set(table) - _SECTIONS
    if unknown:
        raise TemplateError(f"{path.name}: unknown section {', '.join(sorted(unknown))} in the header.")
    params = tuple(_param(path, key, values) for key, values in _table(path, table, "params").items())
    launch = _table(path, table, "launch")
    family = Family(
        name=name,
        path=path,
        summary=summary,
        version=_get(path, table, "version", int),
        arch=tuple(_get(path, table, "arch", list)),
        entry=_get(path, table, "entry", str),
        params=params,
        when=_expressions(path, table, "when", (bool,)),
        structural=tuple(_table(path, table, "structural", optional=True).get("names", ())),
        blocks=tuple(tuple(names) for names in _table(path, table, "blocks", optional=True).values()),
        let=_expressions(path, table, "let", (int, float, str, bool)),
        check=_expressions(path, table, "check", (bool,)),
        grid=_triple(path, launch, "grid"),
        block=_triple(path, launch, "block"),
        smem=Expression(launch.get("smem", 0), f"{path.name}: launch.smem", (int,)),
        seeds=_table(path, table, "seeds", optional=True),
        uncounted=Expression(
            _table(path, table, "model", optional=True).get("uncounted", 0),
            f"{path.name}: model.uncounted",
            (int,),
        ),
    )
    _probe(family)
    return family


def body_of(path: Path) -> str:
    """The CUDA part of a template, without its header."""
    return _HEADER.sub("", path.read_text(encoding="utf-8"), count=1)


def _header(path: Path) -> tuple[dict[str, Any], str]:
    match = _HEADER.match(path.read_text(encoding="utf-8"))
    if not match:
        raise TemplateError(
            f"{path.name}: no header; the file must start with a {{#--- ... ---#}} TOML block."
        )
    try:
        table = tomllib.loads(match[1])
    except tomllib.TOMLDecodeError as error:
        raise TemplateError(f"{path.name}: the header is not TOML: {error}.") from None
    comments = [line[1:].strip() for line in match[1].splitlines() if line.startswith("#")]
    return table, comments[0] if comments else ""


def _get(path: Path, table: Mapping[str, Any], key: str, kind: type) -> Any:
    value = table.get(key)
    if not isinstance(value, kind):
        raise TemplateError(f"{path.name}: the header needs {key} ({kind.__name__}), it has {value!r}.")
    return value


def _table(path: Path, table: Mapping[str, Any], key: str, *, optional: bool = False) -> dict[str, Any]:
    if optional and key not in table:
        return {}
    section: dict[str, Any] = _get(path, table, key, dict)
    return section


def _param(path: Path, name: str, values: object) -> Param:
    if isinstance(values, list) and all(isinstance(v, (int, bool, str)) for v in values):
        distinct = {(type(v), v) for v in values}
        if values and len(distinct) == len(values):
            return Param(name, tuple(values))
    raise TemplateError(f"{path.name}: params.{name} must be a list of distinct numbers, words or switches.")


def _expressions(
    path: Path, table: Mapping[str, Any], section: str, types: tuple[type, ...]
) -> dict[str, Expression]:
    entries = _table(path, table, section, optional=True)
    return {key: Expression(text, f"{path.name}: {section}.{key}", types) for key, text in entries.items()}


def _triple(path: Path, launch: Mapping[str, Any], key: str) -> tuple[Expression, ...]:
    entries = launch.get(key)
    if not isinstance(entries, list) or len(entries) != 3:
        raise TemplateError(f"{path.name}: launch.{key} must be a list of three expressions.")
    return tuple(Expression(text, f"{path.name}: launch.{key}", (int,)) for text in entries)


def _probe(family: Family) -> None:
    """Evaluates everything once, so that a misspelt name fails when the file is loaded."""
    gpu = load_gpu("l4")
    names = {param.name for param in family.params}
    mentioned = {*family.when, *family.structural, *(n for block in family.blocks for n in block)}
    for stray in sorted(mentioned - names):
        raise TemplateError(f"{family.path.name}: '{stray}' is named in the header but is not a param.")
    values = {param.name: param.values[0] for param in family.params}
    space = SearchSpace(
        family.name, family.params, when={k: partial(_evaluate, e) for k, e in family.when.items()}
    )
    # Once with every param present, once canonical: an expression must not need an inactive param.
    for probe in (values, space.genome(values).as_dict()):
        derived = family.names(probe, _PROBE_KEY, gpu)
        for expression in (*family.check.values(), family.uncounted):
            expression(derived)
    family.launches(space.genome(values), _PROBE_WORKLOAD, gpu)
    for seed in family.seeds.values():
        space.genome(seed)
