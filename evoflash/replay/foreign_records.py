"""Opens the files of other tuners and turns their configurations into genomes. Reads no time.

A file that is cut, damaged or no JSON is answered with where that is. A configuration stands once, and what
evoflash wrote itself has a digest beside it, so that an edited record does not pass for a recorded one.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.space import Genome, Param, Value, is_among

Json = dict[str, Any]

ABSENT = "absent"  # the value of a param that a configuration does not have
_GZIP = b"\x1f\x8b"
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_UNFINISHED = re.compile(r"[\w.+-]*\s*")  # a word or number that may have gone on


def read_json(path: Path) -> tuple[Json, tuple[str, ...]]:
    """The object in a file, plain or gzip, and what there is to say of it. UsageError says what is wrong.

    A Kernel Tuner cache that is still being written lacks its last two braces; it is read.
    """
    text = _text(path).strip()
    try:
        return _object(text), ()
    except json.JSONDecodeError as error:
        wrong = _what_is_wrong(text, error)
    try:
        data = _object(text.removesuffix(",") + "}\n}")
    except json.JSONDecodeError:
        raise UsageError(wrong) from None
    if not isinstance(data.get("cache"), dict):
        raise UsageError(wrong)
    count = len(data["cache"])
    return data, (f"its end is missing, as while a tuner writes it: {count} whole entries are read.",)


def _text(path: Path) -> str:
    try:
        stored = path.read_bytes()
        plain = gzip.decompress(stored) if stored.startswith(_GZIP) else stored
        coding = next((name for mark, name in _MARKS.items() if plain.startswith(mark)), "utf-8")
        return plain.decode(coding)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UsageError("the gzip file is cut or damaged: copy it again.") from None
    except UnicodeDecodeError:
        raise UsageError("neither text nor whole gzip: give a Kernel Tuner cache file.") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"{said}: give the path of a Kernel Tuner cache file.") from None


def _object(text: str) -> Json:
    try:
        data = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise UsageError("its JSON is nested too deeply: give a Kernel Tuner cache or T4 results.") from None
    if not isinstance(data, dict):
        raise UsageError("no JSON object: give a Kernel Tuner cache file or T4 results.")
    return data


def _once(pairs: list[tuple[str, Any]]) -> Json:
    """A JSON object; UsageError where a name stands there twice with two values: the later would win."""
    found: Json = {}
    for name, value in pairs:
        if name in found and found[name] != value:
            raise UsageError(f"'{name[:80]}' stands there twice with different values: remove one.")
        found[name] = value
    return found


def _what_is_wrong(text: str, error: json.JSONDecodeError) -> str:
    if not text.startswith("{"):
        return "no JSON object: give a Kernel Tuner cache file or T4 results."
    is_cut = _UNFINISHED.fullmatch(text, error.pos) or error.msg.startswith("Unterminated string")
    line = text.count("\n") + 1
    if is_cut:
        return f"the file is cut: it ends in the middle of line {line}; copy it again, or record it again."
    return f"no whole JSON: {error.msg} in line {error.lineno}, column {error.colno}; mend it there."


def value_of(value: object) -> Value:
    """A value of a param. Genes are numbers without a fraction, switches and words: a fraction is a word."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, bool | int | str):
        return value
    raise UsageError(f"{value!r} is not a value that a param can have: use numbers, booleans or strings.")


def distinct(values: Iterable[object]) -> tuple[Value, ...]:
    """Each once, in their order. 1, 1.0 and true are equal in Python, and different values of a param."""
    return tuple({(type(v), v): v for v in map(value_of, values)}.values())


def genome_of(
    family: tuple[str, int], params: Sequence[Param], values: Mapping[str, Any], inactive: Iterable[str]
) -> Genome:
    """The genome of a configuration; params that are `inactive` there are not in it. UsageError for a value
    that its param does not have.
    """
    out = set(inactive)
    active = {param.name: value_of(values[param.name]) for param in params if param.name not in out}
    for param in params:
        if param.name in active and not is_among(active[param.name], param.values):
            raise UsageError(f"{param.name}={active[param.name]} is not in tune_params.")
    return Genome(*family, tuple(sorted(active.items())))


def digest_of(data: Json) -> str:
    """What a record of ours has beside it, of everything else in it."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_digest(kept: object, data: Json, what: str) -> None:
    """UsageError where `data` is not what evoflash wrote; what has no digest is taken as it stands."""
    if kept is not None and kept != digest_of(data):
        raise UsageError(
            f"{what} was changed since evoflash wrote it: record it again, or take its 'digest' out to "
            "replay it as it stands."
        )
