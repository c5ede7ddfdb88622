"""What an exported file says of itself: the command in its banner, read back. Writes and renders nothing."""

import re
import shlex
from dataclasses import dataclass

from evoflash.errors import UsageError
from evoflash.families.export import genome_of
from evoflash.gpu import GpuSpec
from evoflash.problem import Problem
from evoflash.space import Genome

_COMMAND = re.compile(r"^// evoflash export (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ExportWords:
    """The command's options as they are written; nothing of them is looked up."""

    family: str
    values: tuple[str, ...]  # "param=value"
    problem: str
    gpu: str
    prefix: str | None = None


def export_words(text: str, name: object) -> ExportWords | None:
    """The options in the banner of an exported file's text; None for a text without such a banner.

    UsageError, which calls the file `name`, where the command is not whole.
    """
    command = _COMMAND.search(text)
    if command is None:
        return None
    try:
        words = shlex.split(command[1])
    except ValueError:  # an open quotation mark
        words = []
    options = list(zip(words[::2], words[1::2], strict=False))
    single = dict(options)
    if not {"--family", "--problem", "--gpu"} <= single.keys():
        raise UsageError(f"{name}: the command in its banner is not whole: export it again.")
    values = tuple(word for option, word in options if option == "--set")
    named = (single["--family"], values, single["--problem"], single["--gpu"])
    return ExportWords(*named, prefix=single.get("--prefix"))


def genome_of_words(
    words: ExportWords, *, problem: str | None = None, gpu: str | None = None
) -> tuple[Genome, Problem, GpuSpec]:
    """The genome, for the problem and GPU given or else its own; UsageError where it is not valid there."""
    wanted = {"problem": problem or words.problem, "gpu": gpu or words.gpu}
    return genome_of(words.family, list(words.values), **wanted)
