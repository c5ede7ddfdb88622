"""A kernel family as a search space and launches, made of its template's header. Renders nothing.

A family is a file templates/<name>.cu.j2, which may include parts from templates/<name>/. Its checks become
one Python function, with what they derive.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.errors import TemplateError, UsageError, did_you_mean
from evoflash.extensions import with_extensions
from evoflash.kernels.expression import FAILURES, Expression
from evoflash.kernels.header import ARCH, KernelSpec, MapOf, Seed, read_header
from evoflash.launch import L2_PROMOTIONS, SWIZZLES, LaunchConfig, TensorMapSpec
from evoflash.operation import Loop
from evoflash.paths import template_folders
from evoflash.problem import Problem
from evoflash.runtime.expressions import FUNCTIONS
from evoflash.space import Check, Genome, Param, SearchSpace, Value, Values
from evoflash.specs import GpuSpec, load_gpu
from evoflash.workload import CompileKey, Workload

Holds = Callable[[Mapping[str, Any]], bool]
Names = dict[str, Any]


def compile_checks(
    checks: Mapping[str, Expression], let: Mapping[str, Expression], known: Mapping[str, Any]
) -> Holds:
    """Whether values pass all checks, where `known` names are fixed.

    The function raises what Python raises where an expression fails; the expression itself says it in words.
    """
    trees = {name: each.python() for name, each in let.items()}
    lines, bound = ["def holds(values):"], {*FUNCTIONS, *known}
    for tree in (each.python() for each in checks.values()):
        lines += (f"    {line}" for line in _assignments(tree, trees, bound))
        lines.append(f"    if not ({ast.unparse(tree)}): return False")
    lines.append("    return True")
    names: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, **known}
    exec(compile("\n".join(lines), "<header>", "exec"), names)
    holds: Holds = names["holds"]
    return holds


def compile_names(let: Mapping[str, Expression], known: Mapping[str, Any]) -> Callable[[Values], Names]:
    """What Family.names() makes of values where `known` names are fixed, in a tenth of the time.

    The function raises what Python raises where an expression fails, and looks at no type.
    """
    trees = {name: each.python() for name, each in let.items()}
    lines, bound = ["def names(values):"], {*FUNCTIONS, *known}
    for name in let:
        lines += (f"    {line}" for line in _assignments(ast.Name(name), trees, bound))
    derived = ", ".join(f"{name!r}: {name}" for name in let)
    lines.append(f"    return {{**values, **known, {derived}}}")
    scope: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, **known, "known": known}
    exec(compile("\n".join(lines), "<header>", "exec"), scope)
    names: Callable[[Values], Names] = scope["names"]
    return names


def condition(expression: Expression, known: Mapping[str, Any]) -> Holds:
    """One expression as a function of the values; where it fails, the expression says so in words."""
    bound = expression.bind(known)
    asked = ast.unparse(_Subscripts({*FUNCTIONS, *known}).visit(expression.python()))
    names: dict[str, Any] = {"__builtins__": {}, **FUNCTIONS, **known}
    fast: Holds = eval(f"lambda values: {asked}", names)

    def holds(values: Mapping[str, Any]) -> bool:
        try:
            return fast(values)
        except (KeyError, *FAILURES):
            return bool(bound(values))

    return holds


class _Subscripts(ast.NodeTransformer):
    """Names that are not bound become look-ups in `values`."""

    def __init__(self, bound: set[str]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.expr:  # ast's own name
        if node.id in self._bound:
            return node
        return ast.Subscript(ast.Name("values", ast.Load()), ast.Constant(node.id), ast.Load())


def _assignments(tree: ast.expr, let: Mapping[str, ast.expr], bound: set[str]) -> Iterator[str]:
    """Assignments of the names that an expression needs and that are not bound yet, in order."""
    for name in [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]:
        if name in bound:
            continue
        bound.add(name)
        if name in let:
            yield from _assignments(let[name], let, bound)
            yield f"{name} = {ast.unparse(let[name])}"
        else:
            yield f"{name} = values.get({name!r})"


_PROBE_ARCH = "sm_90a"
_LOOP = tuple(each.name for each in fields(Loop))


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One kernel template and what its header declares."""

    name: str
    path: Path
    summary: str  # the header's first comment line
    version: int
    op: str  # the name of the operation that its kernels compute
    fits: Expression  # whether a search asks for it unnamed, by a shape
    arch: tuple[str, ...]
    entry: str
    params: tuple[Param, ...]
    when: Mapping[str, Expression]
    structural: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]  # the tile is the first
    partition: tuple[str, ...]  # how the work is divided, besides the tile
    let: Mapping[str, Expression]
    check: Mapping[str, Expression]
    kernels: tuple[KernelSpec, ...]  # in launch order
    workspace: Expression  # bytes of global scratch
    zeroed: Expression  # of them, from the first on, that are zero before a call and left so by it
    maps: tuple[MapOf, ...]  # in the order in which they are a kernel's first arguments
    is_deterministic: bool  # equal inputs give equal bits: no sum depends on who comes first
    seeds: tuple[Seed, ...]
    model: Mapping[str, Expression]  # what the performance model must be told
    shrunk: Mapping[str, Expression]  # constants of the text, smaller for some runs in the emulator

    def supports(self, gpu: GpuSpec) -> bool:
        """Whether the family's arch list admits the GPU."""
        return any(_admits(entry, gpu.arch) for entry in self.arch)

    @property
    def usual_problem(self) -> str:
        """The problem that is meant where the family is named and no problem."""
        operation = registry.load(self.op)
        return operation.usual_problem or str(operation.probe)

    def check_computes(self, problem: Problem) -> None:
        """UsageError where the problem is one of another operation."""
        if problem.operation != self.op:
            raise UsageError(
                f"{self.name} computes {self.op}, '{problem}' is {problem.operation}: choose another."
            )

    def space(self, keys: tuple[CompileKey, ...], gpu: GpuSpec) -> SearchSpace:
        """The family's search space on a GPU: a valid genome passes the checks under every compile key."""
        return _space(self, keys, gpu)

    def _build_space(self, keys: tuple[CompileKey, ...], gpu: GpuSpec) -> SearchSpace:
        @lru_cache(maxsize=64)  # all checks of one genome see the same names
        def names(values: tuple[tuple[str, Value], ...]) -> tuple[dict[str, Any], ...]:
            return tuple(self.names(dict(values), key, gpu) for key in keys)

        def holds(values: Values, *, condition: Expression) -> bool:
            return all(condition(each) for each in names(tuple(values.items())))

        fixed = [_fixed_names(key, gpu) for key in keys]

        def active(values: Values, *, conditions: list[Holds]) -> bool:
            for condition in conditions:  # noqa: SIM110  # any() doubles the time
                if condition(values):
                    return True
            return False

        def activity(expression: Expression) -> Callable[[Values], bool]:
            # Asked 100,000 times a sample: what is known is told once, and one key needs no loop.
            conditions = [condition(expression, known) for known in fixed]
            return conditions[0] if len(conditions) == 1 else partial(active, conditions=conditions)

        checks = tuple(Check(name, partial(holds, condition=e)) for name, e in self.check.items())
        compiled = [compile_checks(self.check, self.let, known) for known in fixed]

        def is_valid(values: Values) -> bool:
            try:
                return all(each(values) for each in compiled)
            except FAILURES:  # the expression itself says in words what failed
                return all(check.holds(values) for check in checks)

        when = {name: activity(e) for name, e in self.when.items()}
        partition = (*(self.blocks[0] if self.blocks else ()), *self.partition)
        return SearchSpace(
            self.name, self.params, self.version, checks, when, self.blocks, is_valid, partition=partition
        )

    def suits(self, problem: Problem, gpu: GpuSpec) -> bool:
        """Whether the family is meant for one of the problem's shapes; it computes all of them."""
        return any(self.fits(shape) for shape in _shapes(problem, gpu))

    def seeds_for(self, problem: Problem, space: SearchSpace, gpu: GpuSpec) -> tuple[Genome, ...]:
        """The seeds that are valid in the space and meant for one of the problem's shapes.

        Those for a class of shapes come before those for all, else they keep their order.
        """
        shapes = _shapes(problem, gpu)
        ordered = sorted(self.seeds, key=lambda seed: seed.fits.text is True)
        meant = (space.genome(s.values) for s in ordered if any(s.fits(shape) for shape in shapes))
        return tuple(genome for genome in dict.fromkeys(meant) if space.is_valid(genome))

    def names(self, values: Values, key: CompileKey, gpu: GpuSpec) -> dict[str, Any]:
        """Every name that the CUDA and the expressions see: values, compile key, gpu, derived."""
        names: dict[str, Any] = {**values, **_fixed_names(key, gpu)}
        for name, expression in self.let.items():
            names[name] = expression(names)
        return names

    def quick_names(self, key: CompileKey, gpu: GpuSpec) -> Callable[[Values], Names]:
        """names() as a function of the values of valid genomes, for whoever asks it of thousands."""
        quick = compile_names(self.let, _fixed_names(key, gpu))

        def names(values: Values) -> Names:
            try:
                return quick(values)
            except FAILURES:  # of a gene that is not there: the expressions themselves ask for it by its name
                return self.names(values, key, gpu)

        return names

    def launches(self, genome: Genome, workload: Workload, gpu: GpuSpec) -> tuple[LaunchConfig, ...]:
        """What to launch for the genome on a workload, in order."""
        return self.launches_of(self.names(genome.as_dict(), workload.compile_key(gpu.arch), gpu), workload)

    def launches_of(self, fixed: Mapping[str, Any], workload: Workload) -> tuple[LaunchConfig, ...]:
        """The same from names() of the workload's compile key, where they are known already."""
        workspace_bytes = self.workspace({**fixed, **workload.names()})
        shared = {"workspace_bytes": workspace_bytes, "zeroed_bytes": self.zeroed(fixed)}
        maps = self.tensor_maps(fixed)
        return tuple(replace(each, maps=maps, **shared) for each in self.shapes_of(fixed, workload))

    def shapes_of(self, fixed: Mapping[str, Any], workload: Workload) -> tuple[LaunchConfig, ...]:
        """As launches_of(), but without workspace and tensor maps."""
        names = {**fixed, **workload.names()}
        return tuple(_launch(kernel, names) for kernel in self.kernels if kernel.when(names))

    def shape_names(self) -> tuple[str, ...]:
        """What shapes_of() and loop() depend on, of a workload and a compile key: genomes whose names() have
        the same values of these have the same shapes.
        """
        shapes = [each for kernel in self.kernels for each in kernel.expressions]
        asked = [*shapes, *(self.model[name] for name in _LOOP)]
        return tuple(sorted(frozenset[str]().union(*(each.names for each in asked))))

    def tensor_maps(self, names: Mapping[str, Any]) -> tuple[TensorMapSpec, ...]:
        """The tensor maps that a kernel takes, from names(). TemplateError for one that no GPU knows."""
        maps = tuple(_tensor_map(each, names) for each in self.maps if each.when(names))
        for each in maps:
            is_known = each.swizzle in SWIZZLES and each.l2_promotion in L2_PROMOTIONS
            if (len(each.box) == 4 and each.box[0] != 1) or not is_known:
                raise TemplateError(
                    f"{self.path.name}: tensor_map.{each.of}: box {each.box}, swizzle {each.swizzle}, "
                    f"l2_promotion {each.l2_promotion}: a box lies in one batch element, swizzles are "
                    f"{SWIZZLES} and promotions {L2_PROMOTIONS} bytes."
                )
        return maps

    def loop(self, names: Mapping[str, Any]) -> Loop:
        """The shape of the main loop, from names()."""
        return Loop(*(self.model[name](names) for name in _LOOP))

    def registers(self, names: Mapping[str, Any]) -> int:
        """Registers that a thread has at launch, from names(), where setmaxnreg moves them; else 0."""
        return int(self.model["registers"](names))

    def uncounted_instructions(self, names: Mapping[str, Any]) -> int:
        """Warp instructions of a CTA in a step of its loop that no primitive stands for."""
        return int(self.model["uncounted"](names))

    def core(self, genome: Genome) -> tuple[tuple[str, Value], ...]:
        """The values of the structural params: genomes with equal cores share their code blocks."""
        return tuple((name, value) for name, value in genome.values if name in self.structural)


def _fixed_names(key: CompileKey, gpu: GpuSpec) -> dict[str, Any]:
    return {**key.names(), "gpu": gpu}


def _shapes(problem: Problem, gpu: GpuSpec) -> list[dict[str, Any]]:
    """What expressions see of each shape."""
    return [each.names() | _fixed_names(each.compile_key(gpu.arch), gpu) for each in problem.workloads]


def _tensor_map(given: MapOf, names: Mapping[str, Any]) -> TensorMapSpec:
    return TensorMapSpec(
        given.of,
        box=tuple(side(names) for side in given.box),
        swizzle=given.swizzle(names),
        l2_promotion=given.l2_promotion(names),
        heads_inside=given.heads_inside(names),
    )


def _launch(kernel: KernelSpec, names: Mapping[str, Any]) -> LaunchConfig:
    return LaunchConfig(
        kernel.entry,
        grid=_three(kernel.grid, names),
        block=_three(kernel.block, names),
        smem_bytes=kernel.smem(names),
        cluster=_three(kernel.cluster, names),
        resident=kernel.resident(names),
        dependent=kernel.dependent(names),
    )


def _three(expressions: tuple[Expression, ...], names: Mapping[str, Any]) -> tuple[int, int, int]:
    x, y, z = (expression(names) for expression in expressions)
    return x, y, z


_space = lru_cache(maxsize=64)(Family._build_space)  # one takes as long as a hundred checks


def _admits(entry: str, arch: str) -> bool:
    wanted, have = ARCH.fullmatch(entry), ARCH.fullmatch(arch)
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
    return with_extensions("templates", {path.name.removesuffix(".cu.j2"): path for path in paths})


@cache
def load_family(name: str) -> Family:
    """A family by name; UsageError lists the known ones."""
    if name not in _templates():
        hint = did_you_mean(name, known_families())
        raise UsageError(
            f"no kernel family is called '{name}'.{hint} Known are {', '.join(known_families())}."
        )
    return read_family(_templates()[name])


def families_for(gpu: GpuSpec, op: str = registry.DEFAULT) -> tuple[Family, ...]:
    """The families that run on a GPU and compute the operation of that name."""
    families = (load_family(name) for name in known_families())
    return tuple(family for family in families if family.op == op and family.supports(gpu))


def read_family(path: Path) -> Family:
    """The family in a template file; TemplateError names file, key and expression."""
    family = Family(name=path.name.removesuffix(".cu.j2"), path=path, **read_header(path))
    try:
        _probe(family)
    except UsageError as error:  # of a seed's values
        raise TemplateError(f"{path.name}: {error}") from None
    return family


def _probe(family: Family) -> None:
    """Evaluates everything once, so that a misspelt name fails when the file is loaded."""
    gpu, workload = load_gpu("l4"), registry.load(family.op).probe
    key = workload.compile_key(_PROBE_ARCH)
    names = {param.name for param in family.params}
    in_blocks = {name for block in family.blocks for name in block}
    mentioned = {*family.when, *family.structural, *family.partition, *in_blocks}
    for stray in sorted(mentioned - names):
        raise TemplateError(f"{family.path.name}: '{stray}' is named in the header but is not a param.")
    values = {param.name: param.values[0] for param in family.params}
    space = replace(family.space((key,), gpu), checks=())
    # Once with every param present, once canonical: an expression must not need an inactive param.
    for probe in (values, space.genome(values).as_dict()):
        derived = family.names(probe, key, gpu)
        for expression in (*family.check.values(), *family.model.values(), *family.shrunk.values()):
            expression(derived)
    family.launches(space.genome(values), workload, gpu)
    family.suits(Problem((workload,)), gpu)
    for seed in family.seeds:
        space.genome(seed.values)
        seed.fits(workload.names() | _fixed_names(key, gpu))
