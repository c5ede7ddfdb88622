"""Renders a genome as CUDA text: fills its family's template for one compile key. Compiles nothing.

For the emulator a text can be rendered with smaller constants, as its family's [shrunk] says.
"""

import contextlib
import hashlib
import re
import textwrap
import traceback
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import (
    BytecodeCache,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    Template,
    TemplateSyntaxError,
)
from jinja2 import TemplateError as JinjaError
from jinja2 import __version__ as jinja_version
from jinja2.bccache import Bucket

from evoflash.errors import EvoflashError, TemplateError, UsageError
from evoflash.evaluation import Candidate
from evoflash.kernels.cached_files import seal, unseal
from evoflash.kernels.ef_layer import source_sha
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.header import body_of, lines_of_header
from evoflash.kernels.lint import lint
from evoflash.paths import TEMPLATES, cache_dir, put_in_cache
from evoflash.runtime.expressions import ceil_div
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.version import __version__
from evoflash.workload import CompileKey


def render(genome: Genome, key: CompileKey, gpu: GpuSpec) -> Candidate:
    """The genome's CUDA for a compile key; TemplateError when the template fails or breaks the lint.

    UsageError for a genome whose text was edited.
    """
    check_unedited(genome)
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
    return Candidate(genome, key, source, source_sha(source))


def check_unedited(genome: Genome) -> None:
    """UsageError for a genome whose text was edited: somebody else wrote that, and it is neither compiled nor
    run where evoflash's own kernels are.
    """
    if genome.edits:
        raise UsageError(
            f"{genome.id} is an edit of the text of {genome.root.id}, not a choice of genes: `evoflash "
            f"export {genome.id[:8]} -o kernel.cu` writes it, and evaluate, check and compare take that file."
        )


def banner(family: Family, genome: Genome, key: CompileKey) -> str:
    """The comment that opens a rendered kernel: what it is and the values that make it."""
    values = " ".join(f"{name}={value}" for name, value in genome.values)
    lines = [
        f"{family.name}: {family.summary}",
        f"genome {genome.id} (family version {family.version}), for {key}, by evoflash {__version__}",
        *(textwrap.wrap(values, 104, break_long_words=False, break_on_hyphens=False) or [""]),
    ]
    return "\n".join(f"// {line}" for line in lines)


def _render(family: Family, genome: Genome, key: CompileKey, gpu: GpuSpec) -> str:
    names = family.names(genome.as_dict(), key, gpu)
    try:
        text = _template(body_of(family.path), family.path.parent).render(
            **names, entry=family.entry, banner=banner(family, genome, key)
        )
    except JinjaError as error:
        raise TemplateError(f"{_place(error, family.path)}: {error}; fix the template.") from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        # What an expression of the template's body does; a family is a file of the user's, as an operator is.
        said = f"{type(error).__name__}: {error}"
        raise TemplateError(f"{_place(error, family.path)}: {said}; fix the template.") from None
    return re.sub(r"\n{3,}", "\n\n", text)


def _place(error: Exception, path: Path) -> str:
    """`file:line` of a mistake in a template or in a part of it that it includes."""
    part: str | None = None
    line: int | None = None
    if isinstance(error, TemplateSyntaxError):
        part, line = error.filename, error.lineno
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == "<template>" or frame.filename.endswith(".j2"):
            part, line = frame.filename, frame.lineno
    if part is not None and part != "<template>":
        return f"{path.name}: {Path(part).name}:{line}"
    return f"{path}:{line + lines_of_header(path)}" if line else str(path)


@lru_cache(maxsize=16)
def _template(body: str, folder: Path) -> Template:
    # Its parts are looked up at each render, and compiled again when their files have changed.
    environment = _environment(folder)
    bucket = COMPILED_TEMPLATES.get_bucket(environment, hashlib.sha256(body.encode()).hexdigest(), None, body)
    if bucket.code is None:
        bucket.code = environment.compile(body)
        COMPILED_TEMPLATES.set_bucket(bucket)
    return Template.from_code(environment, bucket.code, environment.make_globals(None))


class _CompiledTemplates(BytecodeCache):
    """What Jinja made of templates, for the next process: a family and its parts take up to 0.3 s to compile.
    Where the cache cannot be read or written they are compiled in each.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError, EvoflashError):
            if (code := unseal(self._path(bucket).read_bytes())) is not None:
                bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        code = bucket.bytecode_to_string()
        with contextlib.suppress(OSError, EvoflashError):
            put_in_cache(self._path(bucket), seal(code))

    def _path(self, bucket: Bucket) -> Path:
        return cache_dir() / "templates" / f"{jinja_version}-{bucket.key}"


COMPILED_TEMPLATES = _CompiledTemplates()


@lru_cache(maxsize=16)
def _environment(folder: Path) -> Environment:
    """Finds a family's parts beside it first, so that a copy of a shipped family includes its own parts."""
    environment = Environment(
        loader=FileSystemLoader((folder, TEMPLATES)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        bytecode_cache=COMPILED_TEMPLATES,
    )
    environment.globals = {"ceil_div": ceil_div, "min": min, "max": max, "range": range}
    environment.filters["nested"] = indent
    environment.filters["substituted"] = substitute
    return environment


def indent(text: str, columns: int) -> str:
    """C++ so many columns further in; preprocessor lines stay at the margin, and empty lines stay empty."""
    margin = " " * columns
    lines = text.split("\n")
    return "\n".join(margin + line if line and line[0] != "#" else line for line in lines)


def substitute(text: str, rows: Iterable[tuple[object, str, str | None]]) -> str:
    """The text with one row after the other applied: (when, what is written, what stands there instead).

    A row whose first item is false is left out; None as its last takes out each line with what is written.
    """
    for when, written, instead in rows:
        if not when or written not in text:
            continue
        if instead is not None:
            text = text.replace(written, instead)
        while instead is None and (at := text.find(written)) >= 0:
            end = text.find("\n", at + len(written))
            text = text[: text.rfind("\n", 0, at) + 1] + (text[end + 1 :] if end >= 0 else "")
    return text


def shrunk(source: str, family: Family, names: Mapping[str, Any]) -> str:
    """The text with each `constexpr int NAME = number;` of [shrunk] as its expression has it under the names.

    A constant that the text does not have plays no part.
    """
    for name, expression in family.shrunk.items():
        pattern = rf"\bconstexpr int {re.escape(name)} = \d+;"
        source = re.sub(pattern, f"constexpr int {name} = {expression(names)};", source)
    return source
