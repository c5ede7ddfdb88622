"""Tables of cases and texts in the file beside a test: test_NAME.toml for test_NAME.py. Judges nothing."""

import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])


@cache
def _read(test: str) -> dict[str, Any]:
    return tomllib.loads(Path(test).with_suffix(".toml").read_text(encoding="utf-8"))


def data(test: str, name: str, *, tuples: bool = False) -> Any:
    """What the file beside `test` holds under that name; with `tuples`, its arrays are tuples."""
    value = _read(test)[name]
    return _with_tuples(value) if tuples else value


def table_of_cases(
    *, tuples: bool = False, more: Sequence[Any] = (), ids: Any = None
) -> Callable[[Test], Test]:
    """Parametrizes a test by the table of its name: a row's keys are the arguments, `id` is what pytest calls
    it, and what a row lacks is None. `more` are rows that no file can hold.
    """

    def parametrize(test: Test) -> Test:
        rows = data(test.__code__.co_filename, test.__name__, tuples=tuples)
        names = list(dict.fromkeys(key for row in rows for key in row if key != "id"))
        cases = [pytest.param(*map(row.get, names), id=row.get("id")) for row in rows]
        return pytest.mark.parametrize(names, [*cases, *more], ids=ids)(test)

    return parametrize


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_tuples(each) for key, each in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
