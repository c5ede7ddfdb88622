"""Genome -> CUDA text: fills a family's template for one compile key. Compiles and launches nothing."""

import hashlib
import re
from functools import lru_cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2 import TemplateError as JinjaError

from evoflash import __version__
from evoflash.compilers.ef_layer import device_headers_sha
from evoflash.errors import TemplateError, UsageError
from evoflash.evaluation import Candidate
from evoflash.families.expression import ceil_div
from evoflash.families.family import Family, load_family
from evoflash.families.header import body_of
from evoflash.gpu import GpuSpec
from evoflash.operation import CompileKey
from evoflash.paths import TEMPLATES
from evoflash.space import Genome

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),  # of what families share, in lib/
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
)
_ENVIRONMENT.globals = {"ceil_div": ceil_div, "min": min, "max": max, "range": range}

# Kernels speak to the hardware only through ef:: (DESIGN section 4): everything that the emulator
# could not see is refused.
_FORBIDDEN = {
    r"\basm\b": "inline assembly",
    r"\b__shared__\b": "a shared array (use ef::smem_base and shared addresses)",
    r"\b__(shfl|syncthreads|syncwarp|ballot|any|all|activemask)\w*": "a CUDA intrinsic (use ef::)",
    r"\b__cvta_\w+": "an address conversion",
    r"\b(atomic[A-Z]\w*|printf|malloc|clock64|clock)\s*\(": "a CUDA library call",
    # No "(" before the declaration's end: a variable, and not a function.
    r"\b__(device__|constant__|managed__)(?![^;={]*\()": "a device global",
    r"\bstatic\s+(?!const)(?![^;={]*\()": "a static variable",
    r"#\s*include\s+(?!\"ef\.h\")": "an include besides ef.h",
}


def render(genome: Genome, key: CompileKey, gpu: GpuSpec) -> Candidate:
    """The genome's CUDA for a compile key; TemplateError when the template fails or breaks the lint."""
    family = load_family(genome.family)
    if genome.version != family.version:
        raise UsageError(
            f"genome {genome.id} belongs to {family.name} version {genome.version}, the template is version "
            f"{family.version}: evaluate it again with a fresh search."
        )
    source = _render(family, genome, key, gpu)
    problems = lint(source)
    if problems:
        raise TemplateError(
            f"{family.path.name} renders {problems[0]}; templates may only use ef:: primitives."
        )
    return Candidate(genome, key, source, _sha(source))


def lint(source: str) -> tuple[str, ...]:
    """What a rendered text uses that the emulator cannot see: '<thing> at line N', empty when clean."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL)
    found = []
    for pattern, what in _FORBIDDEN.items():
        for match in re.finditer(pattern, code, flags=re.MULTILINE):
            found.append(f"{what} at line {code.count(chr(10), 0, match.start()) + 1}")
    return tuple(found)


def banner(family: Family, genome: Genome, key: CompileKey) -> str:
    """The comment that opens a rendered kernel: what it is and the values that make it."""
    values = " ".join(f"{name}={value}" for name, value in genome.values)
    lines = [
        f"{family.name}: {family.summary}",
        f"genome {genome.id} (family version {family.version}), for {key}, by evoflash {__version__}",
        *_wrap(values, 104),
    ]
    return "\n".join(f"// {line}" for line in lines)


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _render(family: Family, genome: Genome, key: CompileKey, gpu: GpuSpec) -> str:
    names = family.names(genome.as_dict(), key, gpu)
    try:
        text = _template(body_of(family.path)).render(
            **names, entry=family.entry, banner=banner(family, genome, key)
        )
    except JinjaError as error:
        raise TemplateError(f"{family.path.name}: {error}; fix the template.") from None
    return re.sub(r"\n{3,}", "\n\n", text)


@lru_cache(maxsize=16)
def _template(body: str) -> Template:
    # Jinja takes up to 0.1 s to compile a large family.
    return _ENVIRONMENT.from_string(body)


def _sha(source: str) -> str:
    return hashlib.sha256((source + device_headers_sha()).encode()).hexdigest()
