"""The tables of kernels beside libraries: means by card, ratios with intervals. No GPU."""

import pytest

from scripts.pages import rivals
from scripts.records import read_record


def row_of(card, us, **ratios):
    shown = {name: [ratio, ratio - 0.01, ratio + 0.01] for name, ratio in ratios.items()}
    return {"row": "a,b=1", "card": card, "us": us, "gb_per_s": 1234, "rivals": shown}


def test_the_mean_is_of_the_fastest_library_of_each_row_and_of_one_card() -> None:
    rows = [
        row_of("NVIDIA H100", 4.0, x=2.0, y=4.0),
        row_of("NVIDIA H100", 4.0, x=8.0),
        row_of("NVIDIA H200", 1, x=3.0),
    ]
    record = {"rows": rows, "command": "evoflash search", "date": "2026-11-27", "software": "torch"}

    said = rivals.content(record, {"x": "X", "y": "Y"})

    assert "NVIDIA H100, 2 problems: the fastest library takes 4.000 times as long" in said
    assert "| `a,b=1` | H100 | 4.00 | 1,234 | 2.000 [1.990, 2.010] | 4.000 [3.990, 4.010] |" in said
    assert "| `a,b=1` | H100 | 4.00 | 1,234 | 8.000 [7.990, 8.010] |  |" in said


def test_kinds_of_rows_have_a_mean_of_their_own_for_each_library() -> None:
    rows = [
        {**row_of("NVIDIA H200", 4.0, x=2.0, y=3.0), "kind": "fp8, m = 1"},
        {**row_of("NVIDIA H200", 4.0, x=1.0), "kind": "fp8, m = 1"},
        {**row_of("NVIDIA H200", 4.0, x=9.0), "kind": "fp8, m = 2"},
    ]
    record = {"rows": rows, "command": "evoflash search", "date": "2026-11-27", "software": "torch"}

    said = rivals.content(record, {"x": "X", "y": "Y"})

    assert "| fp8, m = 1 | H200 | 2 | 1.500, least 1.000 | 3.000, least 3.000 |" in said
    assert "| fp8, m = 2 | H200 | 1 | 9.000, least 9.000 |  |" in said


@pytest.mark.parametrize("name", rivals.PAGES)
def test_every_library_of_a_record_has_its_column(name) -> None:
    known = {library for row in read_record(rivals.newest(name))["rows"] for library in row["rivals"]}

    assert known <= set(rivals.PAGES[name])
