"""The table of times: kept in a file as it is, and a kernel's time taken once more."""

import json

import pytest
from portfolio_cases import SHAPES, table_of, time_of

from evoflash.app.portfolio.table import ShapeTimes, read_table, write_table
from evoflash.errors import UsageError
from evoflash.problem import parse_workload

W = parse_workload(SHAPES[0])


def test_a_table_comes_back_from_its_file_as_it_was(tmp_path):
    table = table_of([[1.0, 2.0], [3.0, None], [5.0, 4.0]])
    table = table.with_border(ShapeTimes(W, {table.kernels[0].id: time_of(9.0)}))

    write_table(tmp_path / "t.json", table)

    assert read_table(tmp_path / "t.json") == table


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "evoflash portfolio table", "version": 2}', "[" * 100_000, "\xff"],
)
def test_a_file_that_is_no_table_is_one_line(tmp_path, text):
    (tmp_path / "t.json").write_bytes(text.encode("latin-1"))

    with pytest.raises(UsageError, match="give another --table"):
        read_table(tmp_path / "t.json")


def test_values_that_are_not_those_of_the_kernel_are_found(tmp_path):
    write_table(tmp_path / "t.json", table_of([[1.0], [1.0], [1.0]]))
    text = json.loads((tmp_path / "t.json").read_text())
    text["kernels"][0]["values"]["block_n"] = 7
    (tmp_path / "t.json").write_text(json.dumps(text))

    with pytest.raises(UsageError, match="give"):
        read_table(tmp_path / "t.json")


def test_a_time_that_is_no_time_is_found(tmp_path):
    write_table(tmp_path / "t.json", table_of([[1.0], [float("nan")], [1.0]]))

    with pytest.raises(UsageError, match="no positive number"):
        read_table(tmp_path / "t.json")


def test_a_kernel_timed_again_keeps_its_new_ratio_to_the_fastest():
    row = ShapeTimes(W, {"fast": time_of(10.0), "slow": time_of(16.0, is_rough=True, is_checked=False)})
    again = ShapeTimes(W, {"fast": time_of(20.0), "slow": time_of(22.0)})

    settled = row.with_retiming("slow", again)

    assert settled.times["slow"].us == pytest.approx(11.0)
    assert settled.times["slow"].is_checked
    assert not settled.times["slow"].is_rough
    assert settled.times["fast"] == row.times["fast"]


def test_a_kernel_that_was_wrong_when_it_was_timed_again_has_no_time_any_more():
    row = ShapeTimes(W, {"fast": time_of(10.0), "wrong": time_of(16.0, is_checked=False)})

    settled = row.with_retiming("wrong", ShapeTimes(W, {"fast": time_of(10.0)}, {"wrong": "row 3 is 1.0"}))

    assert set(settled.times) == {"fast"}
    assert settled.absent == {"wrong": "row 3 is 1.0"}
