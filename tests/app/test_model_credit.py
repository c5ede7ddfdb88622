"""What is said of a language model's edits beside random ones: only what the counts can tell from chance."""

import pytest

from evoflash.app.insights import GroupStats
from evoflash.app.model_credit import ModelCredit, _chance


def arm(uses: int, faster: int) -> GroupStats:
    return GroupStats("x", uses, uses, faster, None, None, "")


@pytest.mark.parametrize(
    ("model", "control", "chance"),
    [((3, 3), (3, 0), 1 / 20), ((4, 4), (4, 0), 1 / 70), ((1, 1), (1, 0), 0.5), ((5, 0), (5, 5), 1.0)],
)
def test_the_chance_is_that_of_fishers_exact_test(model, control, chance: float) -> None:
    assert _chance(arm(*model), arm(*control)) == pytest.approx(chance)


@pytest.mark.parametrize(("gains", "says"), [(4, "more often than random"), (3, "does not tell the model")])
def test_a_gain_that_chance_would_show_is_none(gains: int, says: str) -> None:
    model, control = arm(4, gains), arm(4, 0)
    chance = _chance(model, control)
    found = ModelCredit(
        "m:full", 3, 2, {"HTTP 502": 1}, 9, 8, {"duplicate": 1}, model, control, 2.0, 0.1, chance
    )
    first, second, third, last = found.says
    assert "3 requests, 2 answered in 2.0 s" in first
    assert "(1 HTTP 502)" in first
    assert second == "9 edits, 8 valid, 1 not (1 duplicate)."
    assert f"{gains} faster than the parent" in third
    assert says in last


def test_kernels_that_were_checked_and_not_timed_are_no_matter_of_chance() -> None:
    counts = ("m:full+source", 1, 1, {}, 2, 1, {"does not apply": 1}, arm(1, 0), arm(1, 0), 2.0, 0.1, None)
    said = ModelCredit(*counts, kernels={"ab": 1}, not_compiled=1, is_timed=False, winner_request=None).says
    assert "1 of them not compiled" in said[2]
    assert "not timed" in said[-1]
    assert ModelCredit(*counts, kernels={"ab": 1}, winner_request=1).says[-1].endswith("of request 1.")
