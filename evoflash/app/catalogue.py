"""GPUs, problems, families, strategies and kinds of export, which options can name, and the ef:: primitives.

The command line's help is made of it, so nothing heavy is imported with this module.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.exports.kinds import KINDS
from evoflash.paths import DEVICE
from evoflash.strategies import STRATEGIES, known_strategies

if TYPE_CHECKING:
    from evoflash.kernels.family import Family
    from evoflash.space import Value
    from evoflash.specs import GpuSpec
    from evoflash.workload import Workload


NAMED_PROBLEMS = {
    "mission": "the default: a short sequence, all heads at once",
    "seed_short": "half the length of mission",
    "seed_long": "twice the length of mission",
    "short128": "so short that starting the kernel is most of its time",
    "short256": "short, two in a batch",
    "s1k_d64": "a batch that fills a large GPU",
    "s2k_d64": "training, head dimension 64",
    "s2k_d128": "training, head dimension 128",
    "s4k_d128": "training or prefill",
    "s8k_d128": "prefill of a long prompt",
    "s16k_d128": "prefill of a very long prompt",
    "s8k_d64": "a long prompt, head dimension 64",
    "gqa4k_d128": "grouped queries: four query heads share a key/value head",
    "gqa8k_d128": "grouped queries, a long prompt",
    "decode8k": "decoding: one new query for each sequence, 8192 keys",
    "serving_llama8b_b1_1k": "serving on pages, Llama 3.1 8B",
    "serving_llama8b_b1_8k": "the same, a longer context",
    "serving_llama8b_b8_4k": "the same, eight sequences",
    "serving_llama8b_b64_4k": "the same, 64 sequences",
    "serving_llama8b_sq4_b8_8k": "the same, four query rows: drafts",
    "serving_llama70b_tp8_b32_32k": "Llama 3.1 70B over eight GPUs",
    "serving_llama70b_tp4_b16_prod": "over four GPUs, lengths as in production",
    "serving_qwen3_30b_b1_1k": "Qwen3 30B A3B",
    "serving_qwen3_32b_tp2_b16_4k": "Qwen3 32B over two GPUs",
    "serving_qwen35_35b_b8_16k": "Qwen3.5 35B A3B, head dimension 256",
    "serving_gpt_oss_b32_8k": "gpt-oss 120B, sinks",
    "serving_gpt_oss_b32_8k_w128": "its layers with a window of 128 keys",
    "serving_gemma3_b16_16k_w1024": "Gemma 3 12B, a window of 1024 keys",
    "serving_gemma3_b4_32k": "its layers without a window",
    "serving_gemma2_b8_8k": "Gemma 2 9B, a cap of 50",
    "serving_qwen25_7b_b8_2k": "Qwen2.5 7B, seven query heads a head of K",
    "serving_tp8_skewed": "one long sequence, 15 short ones",
    "serving_tp8_halves": "32 long sequences, 32 short ones",
}


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """A GPU that evoflash knows."""

    spec: "GpuSpec"
    is_present: bool

    def as_dict(self) -> dict[str, Any]:
        """Its figures, and whether it is in this machine."""
        return {**asdict(self.spec), "present": self.is_present}


def gpus() -> tuple[KnownGpu, ...]:
    from evoflash.gpu.launcher import present_gpu, spec_of
    from evoflash.specs import known_gpus, load_gpu

    try:
        here = spec_of(present_gpu()).name
    except EvoflashError:
        here = ""
    return tuple(KnownGpu(load_gpu(name), name == here) for name in known_gpus())


@dataclass(frozen=True, slots=True)
class NamedProblem:
    """A problem that has a name."""

    name: str
    workload: "Workload"
    what: str

    def as_dict(self) -> dict[str, Any]:
        """Its name, the problem as the database writes it, and what it is."""
        return {"name": self.name, "problem": str(self.workload), "what": self.what}


def problems() -> tuple[NamedProblem, ...]:
    from evoflash.problem import parse_problem

    return tuple(
        NamedProblem(name, parse_problem(name).workloads[0], what) for name, what in NAMED_PROBLEMS.items()
    )


def problem_facts(text: str, gpu: str | None = None) -> dict[str, Any]:
    """A problem's workloads with what they take; on a GPU, the one present by default, its physical floor
    and the families that compute it. UsageError for what makes no sense.
    """
    from evoflash.app.search.limits import floor_us
    from evoflash.gpu.launcher import present_gpu, spec_of
    from evoflash.kernels.family import families_for
    from evoflash.problem import parse_problem
    from evoflash.specs import load_gpu

    problem = parse_problem(text)
    workloads = [
        {"workload": str(each), "flops": each.flops, "bytes_moved": each.bytes_moved, **asdict(each)}  # type: ignore[call-overload]
        for each in problem.workloads
    ]
    found = {"problem": str(problem), "name": problem_name(str(problem)), "operation": problem.operation}
    try:
        spec = load_gpu(gpu) if gpu else spec_of(present_gpu())
    except DeviceError:  # none is present, and none was named
        return {**found, "workloads": workloads, "gpu": None}
    known = families_for(spec, problem.operation)
    names = [family.name for family in known if family.suits(problem, spec)]
    floor = floor_us(problem, spec)
    return {**found, "workloads": workloads, "gpu": spec.name, "floor_us": floor, "families": names}


@cache
def problem_name(text: str) -> str:
    """A problem as the database writes it, by the name that it has: `gqa4k_d128,causal`; else as it stands.

    Where both lengths are one they are written as one: `s=4096`.
    """
    return "+".join(map(_workload_name, text.split("+")))


def problem_and_name(text: str) -> str:
    """A problem as the database writes it, with its name behind it where it has one.

    `b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16 (mission)`: whoever asked for `mission` finds it.
    """
    name = problem_name(text)
    is_named = any(part.partition(",")[0] in NAMED_PROBLEMS for part in name.split("+"))
    return f"{text} ({name})" if is_named else text


def _workload_name(text: str) -> str:
    from evoflash.problem import canonical

    if ":" in text:  # of another operation: the names are attention's
        return text
    short = re.sub(r"sq=(\d+),skv=\1(?!\d)", r"s=\1", text).replace(",dtype=fp16", "")
    marks = [word for word in short.split(",") if word == "causal" or word.startswith(("dtype=", "acc="))]
    for name in NAMED_PROBLEMS:
        for known in (name, ",".join([name, *marks])):
            if canonical(known) == text:
                return known
    try:
        return short if canonical(short) == text else text
    except EvoflashError:  # a recording's, of another program
        return text


@dataclass(frozen=True, slots=True)
class FamilySummary:
    """A kernel family as its header describes it."""

    family: "Family"

    @property
    def points(self) -> int:
        """How many genomes there are before the checks, for a usual problem."""
        from evoflash.operation import load
        from evoflash.specs import load_gpu

        key = load(self.family.op).probe.compile_key("sm_89")
        return self.family.space((key,), load_gpu("l4")).cardinality

    @property
    def notes(self) -> Mapping[str, str]:
        """What each gene is, in words."""
        from evoflash.kernels.header import gene_notes, header_of

        return gene_notes(header_of(self.family.path))

    @property
    def genes(self) -> "Mapping[str, tuple[Value, ...]]":
        """The values of each, the default first."""
        return {param.name: param.values for param in self.family.params}

    @property
    def conditions(self) -> Mapping[str, object]:
        """When a gene is active, of those that are not always."""
        return {name: condition.text for name, condition in self.family.when.items()}

    @property
    def checks(self) -> Mapping[str, object]:
        """What a genome must fulfil before it is compiled."""
        return {name: check.text for name, check in self.family.check.items()}

    def as_dict(self) -> dict[str, Any]:
        """Name, version, GPUs' architectures, genes and checks."""
        family = self.family
        head = {"name": family.name, "version": family.version, "arch": family.arch}
        return {**head, "summary": family.summary, "params": self.genes, "checks": self.checks}


def families(name: str | None = None) -> tuple[FamilySummary, ...]:
    """The one of that name, or all. UsageError for an unknown name."""
    from evoflash.kernels.family import known_families, load_family

    return tuple(FamilySummary(load_family(each)) for each in ((name,) if name else known_families()))


def strategies() -> tuple[str, ...]:
    """The registered strategies, shipped and of extension folders."""
    try:
        return known_strategies()
    except (UsageError, OSError):  # the command that needs them says it; --help is shown all the same
        return tuple(STRATEGIES)


def preset_strategy(strategy: str, preset: str | None, population: str | None) -> tuple[str, int | None]:
    """A strategy's name with its preset and population, and the budget that comes with the preset.

    UsageError where the strategy has none, or a population stands without a preset.
    """
    from evoflash.strategies.evolution import strategy_name, trials_of

    return strategy_name(strategy, preset, population), trials_of(preset)


def export_kinds() -> tuple[str, ...]:
    """The forms in which a kernel can be exported."""
    return tuple(kind.name for kind in KINDS)


def versions() -> str:
    """Of evoflash and of what it stands on."""
    from evoflash.gpu.timing import noise_floor

    return noise_floor.versions()


def begin_emulator() -> None:
    """Have the emulator compiled in the background, before the first kernel waits for it."""
    from evoflash.kernels import gxx

    gxx.begin_runtime()


_PRIMITIVE = re.compile(r"((?:^//[^\n]*\n)+)((?:^template <[^\n]*>\n)?^EF_DEV [^{]*?)\s*\{", re.MULTILINE)
_LINE = re.compile(r",? ?\bEF_(?:ONLY_)?LINE\b")
_INCLUDED = re.compile(r'^#include "(ef_\w+\.h)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PrimitiveGroup:
    """The primitives of one header: what it holds, then each one's signature and what it does."""

    header: str
    about: str
    primitives: tuple[tuple[str, str], ...]


def primitive_groups() -> tuple[PrimitiveGroup, ...]:
    """All headers that have primitives, in the order in which ef.h includes them."""
    names = dict.fromkeys(_INCLUDED.findall((DEVICE / "ef.h").read_text(encoding="utf-8")))
    groups = (_group(name, (DEVICE / name).read_text(encoding="utf-8")) for name in names)
    return tuple(group for group in groups if group.primitives)


def _group(name: str, text: str) -> PrimitiveGroup:
    about = _sentence(text.partition("#pragma once")[0])
    found = (
        (_signature(declaration), _sentence(comment)) for comment, declaration in _PRIMITIVE.findall(text)
    )
    return PrimitiveGroup(name, about, tuple(found))


def _sentence(comment: str) -> str:
    return " ".join(line.lstrip("/ ").rstrip() for line in comment.splitlines()).strip()


def _signature(declaration: str) -> str:
    return " ".join(_LINE.sub("", declaration).replace("EF_DEV ", "").split())


def primitives_text() -> str:
    """The list for a terminal: a header, then its primitives."""
    lines = []
    for group in primitive_groups():
        lines += [f"{group.header}: {group.about}", ""]
        for signature, about in group.primitives:
            lines += [f"  {signature}", f"      {about}"]
        lines.append("")
    return "\n".join(lines).rstrip()
