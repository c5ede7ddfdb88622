"""Reads a template's TOML header into records and compiled expressions. Knows no GPU and renders nothing.

Seeds may stand in templates/<name>/seeds.toml. What is malformed is a TemplateError with file and key.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.errors import TemplateError, UsageError
from evoflash.kernels.expression import Expression
from evoflash.operation import Operation
from evoflash.paths import TEMPLATES
from evoflash.space import Param, Values
from evoflash.workload import TensorSpec


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}.") from None


def names_of(path: Path, place: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        raise TemplateError(f"{path.name}: {place} must be a list of params in quotes, it is {names!r}.")
    return tuple(names)


def get(path: Path, table: Mapping[str, Any], key: str, kind: type) -> Any:
    value = table.get(key)
    if not isinstance(value, kind):
        raise TemplateError(f"{path.name}: the header needs {key} ({kind.__name__}), it has {value!r}.")
    return value


def switch(path: Path, table: Mapping[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise TemplateError(f"{path.name}: {key} must be true or false, it is {value!r}.")
    return value


def table_of(path: Path, table: Mapping[str, Any], key: str, *, optional: bool = False) -> dict[str, Any]:
    if optional and key not in table:
        return {}
    section: dict[str, Any] = get(path, table, key, dict)
    return section


ARCH = re.compile(r"sm_(\d+)([af]?)(\+?)")
_HEADER = re.compile(r"\A\{#---\n(.*?)\n---#\}\n", re.DOTALL)
_SECTIONS = {
    "like",
    "version",
    "op",
    "for",
    "arch",
    "entry",
    "workspace",
    "workspace_zeroed",
    "atomics",
    "tensor_map",
    "params",
    "when",
    "structural",
    "blocks",
    "partition",
    "let",
    "check",
    "launch",
    "model",
    "shrunk",
    "seeds",
}
_LAUNCH = {"entry", "when", "grid", "block", "smem", "cluster", "resident", "dependent", "even"}
_MAP = {"when", "box", "swizzle", "l2_promotion", "heads_inside"}
_MODEL: dict[str, object] = {  # what [model] may say, and what holds where it is silent
    "uncounted": 0,
    "rows": "block_m",
    "keys": "block_n",
    "stages": "k_stages",
    "splits": 1,
    "pack": 1,
    "shares": 0,
    "cluster": 1,
    "overlaps": 0,
    "row_tiles": 1,
    "warpgroups": 0,
    "lead": 0,
    "operand_bytes": 0,
    "most_ctas": 0,
    "noted_pieces": 0,
    "section": 0,
    "part_keys": 0,
    "grain": 1,
    "load_lines": 0,
    "loop_instructions": 95,
    "uncounted_once": 0,
    "once_bytes": 0,
    "first_steps": 0,
    "queue_cycles": 0,
    "fetchers": 1,
    "row_cluster": 1,
    "merge_batch": 4,
    "merge_bytes": 16,
    "emulation_cost": 1,
    "before": 0,
    "registers": 0,
}


@dataclass(frozen=True, slots=True, eq=False)
class KernelSpec:
    """One kernel of a candidate: how to launch it, and whether a genome has it at all.

    `cluster` is in blocks and divides the grid. `resident`: its blocks wait for one another through global
    memory, so that all must be on the GPU at once. `dependent`: it may begin before the launch before it has
    ended, and waits by itself (grid_wait) before it touches what that one reads or writes. Where the header
    says `even`, `smem` may be more than the kernel uses.
    """

    entry: str
    when: Expression
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    smem: Expression
    cluster: tuple[Expression, ...]
    resident: Expression
    dependent: Expression

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All of them."""
        sides = *self.grid, *self.block, *self.cluster
        return (*sides, self.when, self.smem, self.resident, self.dependent)


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """A tensor map of a 16-bit tensor that a genome may have: evaluation.TensorMap as expressions."""

    of: str
    when: Expression
    box: tuple[Expression, ...]  # in the order of the tensor's axes
    swizzle: Expression
    l2_promotion: Expression
    heads_inside: Expression


@dataclass(frozen=True, slots=True)
class Seed:
    """A named genome that a search tries first, and the shapes that it is meant for."""

    name: str
    values: Values
    fits: Expression


def read_header(path: Path) -> dict[str, Any]:
    """The fields of a Family that its file declares."""
    table, summary = read_table(path)
    unknown = set(table) - _SECTIONS
    if unknown:
        raise TemplateError(f"{path.name}: unknown section {', '.join(sorted(unknown))} in the header.")
    params = tuple(_param(path, key, values) for key, values in table_of(path, table, "params").items())
    return dict(
        summary=summary,
        version=get(path, table, "version", int),
        op=_operation(path, table).name,
        fits=Expression(table.get("for", True), f"{path.name}: for", (bool,)),
        arch=_arch(path, table),
        entry=get(path, table, "entry", str),
        params=params,
        when=_expressions(path, table, "when", (bool,)),
        structural=names_of(
            path,
            "structural.names",
            table_of(path, table, "structural", optional=True).get("names", ()),
        ),
        blocks=tuple(
            names_of(path, f"blocks.{name}", names)
            for name, names in table_of(path, table, "blocks", optional=True).items()
        ),
        partition=names_of(path, "partition", table.get("partition", ())),
        let=_expressions(path, table, "let", (int, float, str, bool)),
        check=_expressions(path, table, "check", (bool,)),
        kernels=_kernels(path, table),
        workspace=Expression(table.get("workspace", 0), f"{path.name}: workspace", (int,)),
        zeroed=Expression(table.get("workspace_zeroed", 0), f"{path.name}: workspace_zeroed", (int,)),
        is_deterministic=not switch(path, table, "atomics"),
        maps=_maps(path, table),
        seeds=_seeds(path, table),
        model=_model(path, table),
        shrunk=_expressions(path, table, "shrunk", (int,)),
    )


def _arch(path: Path, table: Mapping[str, Any]) -> tuple[str, ...]:
    entries = get(path, table, "arch", list)
    for entry in entries:
        if not isinstance(entry, str) or not ARCH.fullmatch(entry):
            raise TemplateError(
                f'{path.name}: arch: {entry!r}: write "sm_90a", or "sm_80+" for it and later.'
            )
    return tuple(entries)


def _operation(path: Path, table: Mapping[str, Any]) -> Operation:
    """The operation that the header names with `op`, or the default one."""
    name = get(path, {"op": registry.DEFAULT, **table}, "op", str)
    try:
        return registry.load(name)
    except UsageError as error:
        raise TemplateError(f"{path.name}: op: {error}") from None


def body_of(path: Path) -> str:
    """The CUDA part of a template, behind its header; if it has none, that of the family that it is like."""
    own = _HEADER.sub("", path.read_text(encoding="utf-8"), count=1)
    model = None if own.strip() else _model_of(path)
    return own if model is None else body_of(model)


def header_of(path: Path) -> str:
    """The header's text, behind that of the family which it is like."""
    match, model = _HEADER.match(text_of(path)), _model_of(path)
    own = match[0] if match else ""
    return own if model is None else header_of(model) + own


def lines_of_header(path: Path) -> int:
    """How many lines stand before the CUDA part of a template."""
    match = _HEADER.match(path.read_text(encoding="utf-8"))
    return match[0].count("\n") if match else 0


def read_table(path: Path) -> tuple[dict[str, Any], str]:
    """The header as a table, with what the family has that it is like, and its first comment."""
    table, summary = _own_table(path)
    model = _model_of(path)
    return (table if model is None else _with_rest(read_table(model)[0], table)), summary


def _own_table(path: Path) -> tuple[dict[str, Any], str]:
    match = _HEADER.match(text_of(path))
    if not match:
        raise TemplateError(
            f"{path.name}: no header; the file must start with a {{#--- ... ---#}} TOML block."
        )
    try:
        table = tomllib.loads("\n" + match[1])  # so that the lines are numbered as in the file
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise TemplateError(f"{path.name}: the header is not TOML: {error}.") from None
    comments = [line[1:].strip() for line in match[1].splitlines() if line.startswith("#")]
    return table, comments[0] if comments else ""


def _model_of(path: Path) -> Path | None:
    """The template of the family that a header names with `like`, beside it or among the shipped ones."""
    name = _own_table(path)[0].get("like")
    if name is None:
        return None
    places = [folder / f"{name}.cu.j2" for folder in (path.parent, TEMPLATES)]
    found = next((place for place in places if place.is_file() and place != path), None)
    if found is None:
        raise TemplateError(f"{path.name}: like: there is no family '{name}' to be like.")
    return found


def _with_rest(model: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A header with what it does not say as another one says it. A gene without values is left out, wherever
    the other names it; seeds are a family's own.
    """
    table = {key: value for key, value in model.items() if key not in ("like", "for", "seeds")}
    for key, value in own.items():
        is_part = isinstance(value, dict) and isinstance(table.get(key), dict)
        table[key] = {**table[key], **value} if is_part else value
    gone = {gene for gene, values in table.get("params", {}).items() if values == []}
    for key in ("params", "when"):
        table[key] = {gene: value for gene, value in table.get(key, {}).items() if gene not in gone}
    table["partition"] = [gene for gene in table.get("partition", ()) if gene not in gone]
    for key in ("structural", "blocks"):
        table[key] = {
            name: [gene for gene in genes if gene not in gone] for name, genes in table.get(key, {}).items()
        }
    return table


def _param(path: Path, name: str, values: object) -> Param:
    if isinstance(values, list) and all(isinstance(v, (int, bool, str)) for v in values):
        distinct = {(type(v), v) for v in values}
        if values and len(distinct) == len(values):
            return Param(name, tuple(values))
    raise TemplateError(f"{path.name}: params.{name} must be a list of distinct numbers, words or switches.")


def _expressions(
    path: Path, table: Mapping[str, Any], section: str, types: tuple[type, ...]
) -> dict[str, Expression]:
    entries = table_of(path, table, section, optional=True)
    return {key: Expression(text, f"{path.name}: {section}.{key}", types) for key, text in entries.items()}


def _kernels(path: Path, table: Mapping[str, Any]) -> tuple[KernelSpec, ...]:
    launch = table.get("launch")
    tables = launch if isinstance(launch, list) else [table_of(path, table, "launch")]
    if not tables or not all(isinstance(each, dict) for each in tables):
        raise TemplateError(f"{path.name}: launch must be a table, or a list of tables ([[launch]]).")
    entry = get(path, table, "entry", str)
    return tuple(_kernel(path, each, entry) for each in tables)


def _kernel(path: Path, launch: Mapping[str, Any], entry: str) -> KernelSpec:
    if unknown := sorted(set(launch) - _LAUNCH):
        raise TemplateError(
            f"{path.name}: unknown launch.{unknown[0]}: known are {', '.join(sorted(_LAUNCH))}."
        )

    def expression(key: str, default: object, kind: type) -> Expression:
        return Expression(launch.get(key, default), f"{path.name}: launch.{key}", (kind,))

    grid = _triple(path, launch, "grid")
    if "even" in launch:
        launch = {**launch, "smem": _even_share(launch, grid)}
    return KernelSpec(
        entry=str(launch.get("entry", entry)),
        when=expression("when", True, bool),
        grid=grid,
        block=_triple(path, launch, "block"),
        smem=expression("smem", 0, int),
        cluster=_triple(path, {"cluster": [1, 1, 1], **launch}, "cluster"),
        resident=expression("resident", False, bool),
        dependent=expression("dependent", False, bool),
    )


def _even_share(launch: Mapping[str, Any], grid: Iterable[Expression]) -> str:
    """`smem`, or where `even` holds so much that no more CTAs fit an SM than an even share of the grid.

    A launch that begins while the one before holds most of the room is put where there is some: an SM gets up
    to as many CTAs as fit, others none. Clusters of more than two, which fill no group of SMs whole, have
    half as much room again. Not where there are fewer CTAs than half the SMs, nor without SMs: in the
    emulator a kernel that writes behind its memory is to be found.
    """
    smem, ctas = launch["smem"], " * ".join(f"({side.text})" for side in grid if side.text != 1)
    halves = f"max(2, min(3, {' * '.join(f'({side})' for side in launch.get('cluster', [1]))}))"
    share = f"ceil_div({halves} * {ctas}, 2 * gpu.sm_count)"
    room = f"(gpu.smem_per_sm // {share} - 1024) // 128 * 128"  # the driver keeps 1 KB
    padded = f"min(1, 2 * {ctas} // gpu.sm_count) * min(gpu.smem_per_block, {room})"
    return f"max({smem}, {padded}) if {launch['even']} and gpu.sm_count > 0 else {smem}"


def _maps(path: Path, table: Mapping[str, Any]) -> tuple[MapOf, ...]:
    """In the order of the kernel's arguments."""
    entries = table_of(path, table, "tensor_map", optional=True)
    operation = _operation(path, table)
    tensors = {x.name: x for x in operation.tensors(operation.probe) if x.dtype not in ("fp32", "int32")}
    for name in entries:
        if name not in tensors or not isinstance(entries[name], dict):
            first, known = next(iter(tensors)), ", ".join(tensors)
            raise TemplateError(
                f"{path.name}: tensor_map.{name}: write [tensor_map.{first}], or another of {known}."
            )
    return tuple(_map(path, tensors[name], entry) for name, entry in entries.items())


def _map(path: Path, tensor: TensorSpec, entry: Mapping[str, Any]) -> MapOf:
    of, axes = tensor.name, tensor.long_axes
    where = f"{path.name}: tensor_map.{of}"
    if unknown := sorted(set(entry) - _MAP):
        raise TemplateError(f"{where}.{unknown[0]} is unknown: known are {', '.join(sorted(_MAP))}.")
    box = entry.get("box")
    if not isinstance(box, list) or len(box) != len(axes):
        count = {2: "two", 3: "three", 4: "four"}.get(len(axes), len(axes))
        raise TemplateError(f"{where}.box must be a list of {count} expressions: {', '.join(axes)}.")

    def expression(key: str, default: object, kind: type) -> Expression:
        return Expression(entry.get(key, default), f"{where}.{key}", (kind,))

    return MapOf(
        of,
        when=expression("when", True, bool),
        box=tuple(Expression(side, f"{where}.box", (int,)) for side in box),
        swizzle=expression("swizzle", 0, int),
        l2_promotion=expression("l2_promotion", 256, int),
        heads_inside=expression("heads_inside", False, bool),
    )


def _seeds(path: Path, table: Mapping[str, Any]) -> tuple[Seed, ...]:
    """In the order in which they are written, from the header or from the family's seeds.toml."""
    beside = path.parent / path.name.removesuffix(".cu.j2") / "seeds.toml"
    if not beside.is_file():
        entries, where = table_of(path, table, "seeds", optional=True), f"{path.name}: seeds."
    elif "seeds" in table:
        raise TemplateError(
            f"{path.name}: the header has seeds, and so has {_beside(beside)}: keep one of them."
        )
    else:
        entries, where = _read_seeds(beside), f"{_beside(beside)}: "
    return tuple(_seed(name, entry, where + name) for name, entry in entries.items())


def _read_seeds(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise TemplateError(f"{_beside(path)} is not TOML: {error}.") from None


def _beside(path: Path) -> str:
    """How messages call a file in a family's folder."""
    return f"{path.parent.name}/{path.name}"


def _seed(name: str, entry: object, where: str) -> Seed:
    if not isinstance(entry, dict):
        raise TemplateError(f"{where} must be a table of params and their values, it is {entry!r}.")
    values = {key: value for key, value in entry.items() if key != "for"}
    return Seed(name, values, Expression(entry.get("for", True), f"{where}.for", (bool,)))


def _model(path: Path, table: Mapping[str, Any]) -> dict[str, Expression]:
    section = table_of(path, table, "model", optional=True)
    if unknown := sorted(set(section) - set(_MODEL)):
        raise TemplateError(f"{path.name}: unknown model.{unknown[0]}: known are {', '.join(_MODEL)}.")
    return {
        key: Expression(section.get(key, default), f"{path.name}: model.{key}", (int,))
        for key, default in _MODEL.items()
    }


def _triple(path: Path, launch: Mapping[str, Any], key: str) -> tuple[Expression, ...]:
    entries = launch.get(key)
    if not isinstance(entries, list) or len(entries) != 3:
        raise TemplateError(f"{path.name}: launch.{key} must be a list of three expressions.")
    return tuple(Expression(text, f"{path.name}: launch.{key}", (int,)) for text in entries)


def gene_notes(header: str) -> dict[str, str]:
    """What each gene is: the comment beside its line in the header's text."""
    return dict(re.findall(r"^(\w+)\s*=\s*\[[^\]]*\]\s*#\s*(.+)$", header, flags=re.MULTILINE))
