"""The chart of the best so far in a search's progress."""

import pytest

from evoflash.views.progress import LONGEST, NARROWEST, ROWS, chart

FALLING = [(1, 40.0), (10, 20.0), (50, 10.0)]


def bars(lines: list[str]) -> list[str]:
    label = max(line.index(" ", len(line) - len(line.lstrip())) for line in (lines[0], lines[-1]))
    return [line[label + 1 :] for line in lines]


def test_the_first_and_the_last_time_stand_before_it_with_the_mark_of_an_estimate():
    lines = chart(FALLING, 60, 100, 80, mark="~")
    assert lines[0].startswith("~40.00 ")
    assert lines[-1].startswith("~10.00 ")
    assert len(lines) == ROWS


@pytest.mark.parametrize("width", range(NARROWEST, 160, 7))
def test_it_is_as_wide_as_the_terminal_at_most_and_fills_the_share_that_is_spent(width):
    lines = chart(FALLING, 50, 100, width)
    columns = min(width - 7, LONGEST)
    assert max(map(len, lines)) <= width
    assert len(bars(lines)[-1]) == pytest.approx(columns / 2, abs=1)


def test_a_faster_best_is_a_lower_column():
    rows = [f"{row:<{LONGEST}}" for row in bars(chart(FALLING, 100, 100, 80))]
    heights = [len("".join(column).strip()) for column in zip(*rows, strict=True)]
    assert heights == sorted(heights, reverse=True)
    assert (heights[0], heights[-1]) == (ROWS, 1)


def test_without_a_budget_it_is_filled_to_its_end():
    assert len(bars(chart(FALLING, 50, None, 80))[-1]) == LONGEST


def test_on_a_terminal_without_unicode_it_is_drawn_in_ascii():
    assert "".join(chart(FALLING, 60, 100, 80, is_ascii=True)).isascii()
    assert not "".join(chart(FALLING, 60, 100, 80)).isascii()


def test_nothing_is_drawn_before_the_best_has_changed_or_where_there_is_no_room():
    assert (
        chart(FALLING[:1], 5, 100, 80)
        == chart([], 5, 100, 80)
        == chart(FALLING, 60, 100, NARROWEST - 1)
        == []
    )
