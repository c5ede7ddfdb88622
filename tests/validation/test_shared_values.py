"""What several processes want is made once, whoever dies over it; nobody reads half of it."""

import os
import resource
import time

import numpy as np
import pytest

from evoflash.evaluation import Status
from evoflash.isolation import IsolatedPool
from evoflash.operation import operation_of
from evoflash.problem import parse_problem
from evoflash.validation.cases import SharedCases, get_or_publish, key_of_large, names_of_large, place_of

VALUE = {"small": 7, "one": np.arange(1000, dtype=np.float32), "other": np.ones((3, 5), np.uint16)}
(TIMED,) = parse_problem("b=1,h=1,s=64,d=64").workloads


def never():
    raise AssertionError("it had been made")


def made(place, note, pause_s, dies=False):
    """The sum of what is shared, made slowly and with a note."""

    def make():
        with open(note, "a", encoding="utf-8") as file:
            file.write("made\n")
        time.sleep(pause_s)
        if dies:
            os._exit(1)
        return VALUE

    found = get_or_publish(place, make)
    return float(found["one"].sum()) + found["small"]


def test_it_comes_back_as_it_was_and_cannot_be_written_to(tmp_path):
    first = get_or_publish(tmp_path / "a", lambda: VALUE)
    again = get_or_publish(tmp_path / "a", never)
    for found in (first, again):
        assert found["small"] == 7
        assert all(np.array_equal(found[name], VALUE[name]) for name in ("one", "other"))
        with pytest.raises(ValueError, match="read-only"):
            found["one"][0] = 1


def test_of_several_that_come_at_once_one_makes_it(tmp_path):
    with IsolatedPool(3) as pool:
        asked = [pool.submit(made, tmp_path / "a", tmp_path / "note", 1.0, timeout_s=60) for _ in range(3)]
        assert {each.result().value for each in asked} == {VALUE["one"].sum() + 7}
    assert (tmp_path / "note").read_text() == "made\n"


def test_who_dies_over_it_leaves_it_to_the_next(tmp_path):
    with IsolatedPool(1) as pool:
        ending = pool.submit(made, tmp_path / "a", tmp_path / "note", 0.0, True, timeout_s=60).result()
        assert ending.status is not Status.CORRECT
        assert pool.submit(made, tmp_path / "a", tmp_path / "note", 0.0, timeout_s=60).result().value
    # Twice by those who die, because a death before a kernel began is tried again, and once by the next.
    assert (tmp_path / "note").read_text() == "made\n" * 3


def test_a_file_that_was_cut_short_is_made_again(tmp_path):
    place = tmp_path / "a"
    place.write_bytes(
        b"\0" * 40
    )  # as a process leaves it that is killed while it writes: the head comes last
    assert get_or_publish(place, lambda: VALUE)["small"] == 7
    assert get_or_publish(place, never)["small"] == 7


def test_where_there_is_no_room_nothing_is_kept_and_nothing_lost(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    try:
        found = get_or_publish(tmp_path / "a", lambda: VALUE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found is VALUE
    assert (tmp_path / "a").stat().st_size == 0
    assert get_or_publish(tmp_path / "gone" / "a", lambda: VALUE) is VALUE


def test_what_is_large_lies_in_memory_that_other_processes_find_and_that_ends_with_this_one(tmp_path):
    cases = SharedCases((TIMED, TIMED), 3)
    places = [place_of(cases.path, key_of_large(TIMED, name, 3)) for name in names_of_large(TIMED)]
    assert len(places) == len(operation_of(TIMED).inputs.at_size) + 1
    assert all(os.readlink(place).startswith(f"/proc/{os.getpid()}/fd/") for place in places)
    with IsolatedPool(1) as pool:
        for _ in range(2):
            assert pool.submit(made, places[0], tmp_path / "note", 0.0, timeout_s=60).result().value
    assert (tmp_path / "note").read_text() == "made\n"
    assert get_or_publish(places[0], never)["small"] == 7
    cases.close()
    assert not os.path.exists(cases.path)
