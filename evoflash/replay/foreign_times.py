"""Asks each number of another tuner's record for its name, its unit and its direction. Opens no file.

A kernel's time is a number whose name says so and whose unit is one of seconds, or whose record says the unit
for all. What does not say what it is, is refused in a line that names it. Single launches (`runtimes`) have
no unit of their own there: they are read in the unit in which they agree with the times beside them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from evoflash.errors import UsageError

Json = dict[str, Any]

_WORDS: Mapping[float, str] = {
    1e6: "s sec secs second seconds",
    1e3: "ms msec msecs millis millisecond milliseconds milisecond miliseconds",
    1.0: "us usec usecs micros microsecond microseconds",
    1e-3: "ns nsec nsecs nanos nanosecond nanoseconds",
}
_US = {word: us for us, words in _WORDS.items() for word in words.split()}
_KNOWN = "s, ms, us, ns, or their whole words"
_OF_TIMES = re.compile(r"time|duration|latency|elapsed", re.IGNORECASE)
# What a tuner spent beside running a kernel, quotients and counts of times, and how they scatter.
_OF_NO_KERNEL = re.compile(
    r"compil|verif|valid|benchmark|strateg|framework|search|overhead|tuning|/|_per_|speed"
    r"|timeout|timestamp|count|(?<!du)ratio|std|varia|devia|error",
    re.IGNORECASE,
)
_UNIT_IN_NAME = re.compile(r"[\s_\[(]([a-zµμ]+)[\])]?$", re.IGNORECASE)
_NO_TIME = 1e19  # Kernel Tuner before 1.0 wrote 1e20 for a configuration that failed
_AGREE = 2.0  # launches whose middle is further from their time than this factor are in another unit


def us_of_unit(unit: str) -> float | None:
    """How many microseconds one of the unit is; None for what is no unit of time. Case does not matter."""
    return _US.get(unit.strip().replace("µ", "u").replace("μ", "u").lower())


def is_time(value: object) -> TypeGuard[float]:
    """Whether it is a number that a time can be."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _NO_TIME


def is_name_of_time(name: str) -> bool:
    """Whether a number of that name is the time of a kernel, and not of the tuner's other work."""
    return bool(_OF_TIMES.search(name)) and not _OF_NO_KERNEL.search(name)


def recorded_value(value: object, what: str) -> object:
    """The value itself. UsageError where it is a number in quotes, which is neither a time nor an error."""
    if isinstance(value, str):
        try:
            float(value)
        except ValueError:
            return value
        raise UsageError(f"{what} is the word '{value}' and no number: take its quotes out.")
    return value


def check_direction(record: Json, what: str) -> None:
    """UsageError where the record says of its time that more of it is better."""
    word = str(record.get("direction", record.get("objective_direction", ""))).lower()
    if record.get("objective_higher_is_better") is True or word.startswith("max"):
        raise UsageError(f"{what} is to be as high as can be: that is no time.")


def agreeing(launches: Sequence[float], time: float) -> tuple[float, ...]:
    """Single launches that agree with their time; none where their middle is in another unit than it."""
    if not launches or not 1 / _AGREE <= sorted(launches)[len(launches) // 2] / time <= _AGREE:
        return ()
    return tuple(launches)


@dataclass(frozen=True, slots=True)
class RecordedTime:
    """Which number of a record is its time: its name, the microseconds of its unit, those of its launches."""

    name: str
    default_us: float  # of a number without a unit
    launches_us: float | None  # of one of `runtimes`; None where they are in no unit that agrees
    remarks: tuple[str, ...] = ()

    def us(self, result: Json) -> object:
        """The result's time in microseconds, or what stands there in place of a number.

        UsageError where it has neither that measurement nor single launches.
        """
        measured = measurement(result, self.name)
        if measured is not None:
            check_direction(measured, f"its measurement '{self.name}'")
            value = recorded_value(
                measured.get("value"), f"the '{self.name}' of the result {words_of(result)}"
            )
            unit_us = unit_of(measured) or self.default_us
            return unit_us * value if is_time(value) else value
        launches = self.launches(result)
        if not launches:
            raise UsageError(
                f"the result {words_of(result)} is correct and has no measurement '{self.name}': add it, or "
                "leave the result out."
            )
        return sorted(launches)[len(launches) // 2]

    def launches(self, result: Json) -> tuple[float, ...]:
        """Its single launches in microseconds; none where their unit is not known."""
        if self.launches_us is None:
            return ()
        return tuple(self.launches_us * each for each in _runtimes(result))


def time_of_results(
    results: Sequence[Json], *, timeunit: str | None, heads: Sequence[Json] = ()
) -> RecordedTime:
    """Which number of these correct results is their time. UsageError where none says that it is one.

    `timeunit` is what the record says of all times that have no unit of their own, `heads` what it says of
    all results.
    """
    stated_us = None
    if timeunit is not None and (stated_us := us_of_unit(timeunit)) is None:
        raise UsageError(f"the time unit '{timeunit}' is not known: use {_KNOWN}.")
    name, remarks = _name(results)
    if all(_objectives(each) == [name] for each in results):
        for said in (*heads, *results):
            check_direction(said, f"its objective '{name}'")
    found = [each for each in (measurement(result, name) for result in results) if each is not None]
    units = [unit_of(each) for each in found]
    if None in units and stated_us is None:
        remarks = (*remarks, f"no unit stands at '{name}': it is taken for milliseconds, as tuners write T4.")
    default_us = stated_us or 1e3
    pairs = [
        (
            sorted(_runtimes(result))[len(_runtimes(result)) // 2],
            (unit_of(each) or default_us) * each["value"],
        )
        for result in results
        if (each := measurement(result, name)) is not None
        and is_time(each.get("value"))
        and _runtimes(result)
    ]
    tried = dict.fromkeys((*filter(None, (stated_us, *units)), 1e3))
    agreeing = (
        us for us in tried if all(1 / _AGREE <= us * launch / time <= _AGREE for launch, time in pairs)
    )
    return RecordedTime(name, default_us, next(agreeing, None), remarks)


def _name(results: Sequence[Json]) -> tuple[str, tuple[str, ...]]:
    """The name of the time, and what is to be said where that is not what the record ranks by."""
    asked = list(dict.fromkeys(name for each in results for name in _objectives(each)))
    for name in asked:
        if all(_is_time_in(result, name) for result in results):
            others = [each for each in asked if each != name]
            also = (f"of {', '.join(asked)} the time '{name}' is replayed.",) if others else ()
            return name, also
    ranked = ", ".join(f"'{name}'" for name in asked)
    if all(measurement(each, "time") is not None and _is_time_in(each, "time") for each in results):
        return "time", (
            f"it ranks by {ranked}, which is no time: its measurement 'time' is replayed instead.",
        )
    why = next(filter(None, (_why_no_time(result, asked[0]) for result in results)), "")
    raise UsageError(f"the objective {ranked} is no time{why}: only recorded times can be replayed.")


def _objectives(result: Json) -> list[str]:
    given = result.get("objectives") or ["time"]
    return [str(name) for name in ([given] if isinstance(given, str) else given)]


def _is_time_in(result: Json, name: str) -> bool:
    if not is_name_of_time(name):
        return False
    measured = measurement(result, name)
    return measured is None or _why_no_time(result, name) == ""


def _why_no_time(result: Json, name: str) -> str:
    """What is wrong with its unit; empty where nothing is."""
    unit = str((measurement(result, name) or {}).get("unit") or "")
    if not unit.strip():
        return ""
    if us_of_unit(unit) is None:
        return f" (its unit '{unit}' is none of {_KNOWN})"
    written = _UNIT_IN_NAME.search(name)
    named_us = us_of_unit(written[1]) if written else None
    if named_us is not None and named_us != us_of_unit(unit):
        return f" (its unit '{unit}' is not that of its name)"
    return ""


def unit_of(measured: Json) -> float | None:
    """The microseconds of a measurement's unit, from its field or its name; None where neither says one."""
    if (unit := str(measured.get("unit") or "")).strip():
        return us_of_unit(unit)
    written = _UNIT_IN_NAME.search(str(measured["name"]))
    return us_of_unit(written[1]) if written else None


def measurement(result: Json, name: str) -> Json | None:
    """The result's measurement of that name; UsageError where it has two that differ."""
    found = [each for each in result.get("measurements") or () if each["name"] == name]
    if any(each != found[0] for each in found):
        raise UsageError(f"the result {words_of(result)} has two measurements '{name}': remove one.")
    return found[0] if found else None


def words_of(result: Json) -> str:
    """A result's configuration, for people."""
    values = result.get("configuration")
    known = values.items() if isinstance(values, dict) else ()
    return "(" + ", ".join(f"{name}={value}" for name, value in known)[:80] + ")"


def _runtimes(result: Json) -> list[float]:
    times = result.get("times")
    given = times.get("runtimes") if isinstance(times, dict) else None
    return [float(each) for each in given or () if is_time(each)]
