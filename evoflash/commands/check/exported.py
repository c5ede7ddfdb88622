"""A file that `evoflash export` wrote, edited since or not, as something to check; runs nothing.

Such a file inlines PTX, which cannot run here. Its kernel is taken as it stands in the file, with the ef::
layer in place of that PTX; the banner names its genome and thereby its launches and its problem. The PTX
itself, the declarations above it and the launcher below the kernel are not checked.
"""

import re
from dataclasses import replace
from pathlib import Path

from evoflash.commands.check.subject import Subject, candidate_of, of_genome, read_text, unseen_lines
from evoflash.compilers.ef_layer import primitives
from evoflash.errors import UsageError
from evoflash.families.export import export_kernel, without_prefix
from evoflash.families.exported import export_words, genome_of_words
from evoflash.families.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem
from evoflash.space import Genome

_INCLUDE = '#include "ef.h"\n'
_LAYER_ENDS = "}  // namespace ef\n"
_KERNEL_ENDS = re.compile(r"^EF_EXPORT_KERNEL\(.*\n", re.MULTILINE)  # below it stands the launcher


def is_exported(path: Path, text: str) -> bool:
    """Whether it has an export's banner, and its layer in place of an #include; UsageError: half a banner."""
    return _INCLUDE not in text and export_words(text, path) is not None


def of_exported(path: Path, *, problem: str | None, gpu: str | None) -> tuple[Subject, ...]:
    """The kernel of an exported file, for its banner's problem and GPU or for others that it is compiled for.

    UsageError where the banner, the layer or their order are no more those of an export.
    """
    text = read_text(path)
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    was, now = genome_of_words(words), genome_of_words(words, problem=problem, gpu=gpu)
    _check_compiled_for(path, was[1], now[1], now[2].arch)
    (exported,), (rendered,) = of_genome(*was), of_genome(*now)
    head, _, original = exported.source.partition(_INCLUDE)
    kernel, before = _kernel(path, text, primitives(original))
    kernel = without_prefix(kernel, load_family(words.family), words.prefix)
    edits = _edits(original, kernel)
    source = head + _INCLUDE + kernel
    subject = replace(
        rendered,
        title=f"{path}: {rendered.title}" + (", edited" if edits else ""),
        source=source,
        candidate=candidate_of(now[0], source, now[1].compile_keys(now[2].arch)[0]),
        path=path,
        shown=text,
        shift=before - head.count("\n") - _INCLUDE.count("\n"),
        unseen=unseen_lines(source),
        notes=(*_notes(path, text, edits, export_kernel(*was, prefix=words.prefix)), *rendered.notes),
    )
    return (subject,)


def genome_in(path: Path, text: str) -> tuple[Genome, Problem, GpuSpec]:
    """What an exported file holds. UsageError where its kernel is not that genome's any more."""
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    genome, problem, gpu = genome_of_words(words)
    if edits_in(path, text):
        raise UsageError(
            f"the kernel in {path} was edited, or exported by another version: it is no genome of "
            f"{genome.family} any more. `evoflash check` looks into an edited kernel; else export it "
            "again, or write it as a kernel of your own with ef::."
        )
    return genome, problem, gpu


def edits_in(path: Path, text: str) -> int:
    """How many lines of an exported file's kernel are not as its banner's genome has them.

    UsageError where the layer above the kernel, or the order of the parts, is not an export's any more.
    """
    words = export_words(text, path)
    assert words is not None, "is_exported() was asked"
    (exported,) = of_genome(*genome_of_words(words))
    original = exported.source.partition(_INCLUDE)[2]
    kernel, _ = _kernel(path, text, primitives(original))
    return _edits(original, without_prefix(kernel, load_family(words.family), words.prefix))


def _check_compiled_for(path: Path, was: Problem, now: Problem, arch: str) -> None:
    """UsageError where the text in the file is not what the other problem would be compiled from."""
    if was.compile_keys(arch) != now.compile_keys(arch):
        raise UsageError(
            f"{path} was exported for '{was}', and its kernel is compiled for that: it cannot be checked "
            f"for '{now}'; export the genome for that problem, or leave --problem out."
        )


def _kernel(path: Path, text: str, layer: str) -> tuple[str, int]:
    """The kernel's text between layer and launcher, and how many lines of the file stand before it."""
    at = text.find(_LAYER_ENDS) + len(_LAYER_ENDS)
    end = max((found.end() for found in _KERNEL_ENDS.finditer(text)), default=0)
    if at < len(_LAYER_ENDS) or end < at:
        raise UsageError(
            f"{path} is not laid out as an export any more (banner, namespace ef, kernel, launcher): export "
            "it again, or write the kernel as one of your own (`evoflash check --help`)."
        )
    if layer not in text[:at]:
        have = set(text.splitlines())
        changed = next((line.strip() for line in layer.splitlines() if line not in have), "")
        what = f"'{changed[:60]}' is not in the file" if changed else "its lines are in another order"
        raise UsageError(
            f"the PTX above the kernel in {path} is not what its command prints ({what}): it was edited, or "
            "exported by another version. It cannot run here, so nothing could be said of the file: export "
            "it again, or write the change as a kernel of your own with ef:: (`evoflash check --help`)."
        )
    return text[at:end], text.count("\n", 0, at)


def _edits(original: str, kernel: str) -> int:
    """How many lines of the kernel are not those that were exported, blank ones aside."""
    lines = [[line for line in part.splitlines() if line.strip()] for part in (original, kernel)]
    if lines[0] == lines[1]:
        return 0
    known = set(lines[0])
    return max(1, sum(line not in known for line in lines[1]))


def _notes(path: Path, text: str, edits: int, export: str) -> tuple[str, ...]:
    notes = [f"{path} inlines PTX; its kernel was run with ef:: in place of that: lines are those of {path}."]
    if edits:
        lines = f"{edits} line{'s' * (edits > 1)}"
        notes.append(
            f"the kernel was edited ({lines} not as exported): the edited text was run, launched as its "
            "banner says."
        )
    elif text != export:
        notes.append(f"{path} differs from its export outside of the kernel: that part is not checked.")
    return tuple(notes)
