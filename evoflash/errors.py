"""The errors that evoflash raises at people. A candidate that fails is data (a Status), never one of these.

EvoflashError             exit 1   a stated failure
├── UsageError            exit 2   the command line, a genome or a workload makes no sense
├── NoKernelError         exit 3   a search ended without a correct kernel
├── DeviceError           exit 4   no usable GPU, driver, toolkit or host compiler
│   └── CacheError        exit 4   the kernel cache cannot be written, or nothing can be run from it
├── SandboxError          exit 5   nothing here can keep somebody else's kernel in
├── TemplateError         exit 1   a kernel template or its header is malformed
└── StoreError            exit 1   the database cannot be opened, read or written

Any other exception is a mistake in evoflash: exit 70, with a log (cli/program.py).
"""

import difflib
import re
from collections.abc import Iterable


class EvoflashError(Exception):
    """The root: `str(error)` is one line that ends in what to do; `exit_code` is the process's."""

    exit_code = 1

    def __str__(self) -> str:
        """In one line, whatever the text of somebody's that it quotes."""
        return " ".join(super().__str__().splitlines())


class UsageError(EvoflashError):
    """The user asked for something that does not exist or cannot be."""

    exit_code = 2


class NoKernelError(EvoflashError):
    """A search spent its budget and nothing it tried was correct."""

    exit_code = 3


class DeviceError(EvoflashError):
    """The machine lacks what the command needs: a GPU, NVRTC, g++."""

    exit_code = 4


class CacheError(DeviceError):
    """The kernel cache cannot be written, or is where no program may be run from."""


class SandboxError(EvoflashError):
    """Nothing on this machine can keep somebody else's kernel in."""

    exit_code = 5


class TemplateError(EvoflashError):
    """A template's header or body is malformed; the message names file, key and expression."""


class StoreError(EvoflashError):
    """The database cannot be opened, read, written or upgraded."""


# Of a database's URL: behind the user, and as a parameter of libpq. Of a web address: whoever it is for, and
# its whole query, which may be a key under any name.
_PASSWORDS = (
    re.compile(r"(https?://)[^/?#\s'\"]*(@)", re.IGNORECASE),
    re.compile(r"(https?://[^?#\s'\"]*\?)[^\s'\"]+()", re.IGNORECASE),
    re.compile(r"(://[^:/@\s]*:)[^/\s]*(@)"),
    re.compile(r"([?&]\w*password=)[^&\s'\"]*()"),
)


def without_passwords(text: str) -> str:
    """The text with the passwords of URLs left out, and all of a web address that may be a secret."""
    for pattern in _PASSWORDS:
        text = pattern.sub(r"\1***\2", text)
    return text


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean NAME?` for the known name that is most like a mistyped one; empty where none is."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
