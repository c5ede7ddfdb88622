"""Numbers of other tuners' records: each says its name, its unit and what it measures, or is refused."""

import pytest
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.replay.foreign_times import RecordedTime, time_of_results, us_of_unit

Json = dict[str, object]


def result(objective: str, measured: list[Json], runtimes: list[float] | None = None) -> Json:
    times = {"runtimes": runtimes} if runtimes else {}
    return {"configuration": {"a": 1}, "objectives": [objective], "measurements": measured, "times": times}


def read(given: Json, timeunit: str | None = None) -> tuple[RecordedTime, object]:
    time = time_of_results([given], timeunit=timeunit)
    return time, time.us(given)


@table_of_cases()
def test_a_unit_is_known_in_all_its_spellings(unit, us):
    assert us_of_unit(unit) == us


@table_of_cases()
def test_what_is_no_time_is_refused_by_its_name(objective, measured, words):
    with pytest.raises(UsageError, match=words):
        read(result(objective, measured))


@table_of_cases()
def test_a_time_is_read_in_the_unit_that_says_so(objective, measured, us, runtimes, timeunit, said):
    time, found = read(result(objective, measured, runtimes), timeunit)

    assert found == pytest.approx(us)
    assert (said in " ".join(time.remarks)) if said else time.remarks == ()


@table_of_cases()
def test_launches_are_in_the_unit_in_which_they_agree_with_their_time(value, unit, runtimes, launches_us):
    given = result("time", [{"name": "time", "value": value, "unit": unit}], runtimes)

    assert read(given)[0].launches(given) == pytest.approx(tuple(launches_us))


def test_a_time_unit_that_nobody_knows_is_refused():
    with pytest.raises(UsageError, match="time unit 'jiffies' is not known"):
        read(result("time", [{"name": "time", "value": 1}]), "jiffies")
