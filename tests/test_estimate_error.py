"""How far estimates are from measured times: the table is what the record gives, and ties are said."""

import pytest

from evoflash import estimate_error
from evoflash.estimate_error import (
    EstimateError,
    error_in_words,
    error_sentence,
    has_order,
    known_model_version,
    ties,
)
from evoflash.perf_model import model_version
from scripts.model import error as page

KNOWN = EstimateError("flash_mma", 120, 3, ("h200",), 1.1, 0.9, 1.5, 1.06, 0.8)


@pytest.fixture
def known(monkeypatch) -> EstimateError:
    """The only family with an error that is known."""
    monkeypatch.setattr(estimate_error, "_table", lambda: {"model_version": "4", "family": {"flash_mma": {}}})
    monkeypatch.setattr(
        estimate_error,
        "estimate_error",
        lambda family, version=None: KNOWN if family == KNOWN.family and version != "1" else None,
    )
    return KNOWN


def test_the_table_is_what_the_record_gives() -> None:
    rows = page.summaries(page.timed_kernels())

    assert known_model_version() == model_version(), "run python -m scripts.model.error"
    assert set(rows) >= {"flash_mma", "flash_wgmma", "flash_simt", "flash_wmma"}
    for family, row in rows.items():
        shipped = estimate_error.estimate_error(family)
        assert shipped == EstimateError(family, **{**row, "gpus": tuple(row["gpus"])})
        assert shipped.low < shipped.median < shipped.high
        assert shipped.spread > 1


def test_an_estimate_of_the_record_comes_out_again_without_being_counted_twice(monkeypatch) -> None:
    kernel = next(each for each in page.timed_kernels() if each.family == "flash_wmma")

    assert kernel.estimate_us
    first = page.estimated(kernel)
    monkeypatch.delattr("scripts.model.counts.with_preflight")
    assert first.estimate_us == pytest.approx(kernel.estimate_us, rel=1e-3)
    assert page.estimated(kernel) == first


def test_kendalls_tau_counts_pairs_in_order_and_out_of_it() -> None:
    def timed(*pairs: tuple[float, float]) -> list[page.TimedKernel]:
        return [page.TimedKernel("f", "g", "p", {}, us, estimate) for us, estimate in pairs]

    assert page.tau(timed((1, 10), (2, 20), (3, 30))) == 1
    assert page.tau(timed((1, 30), (2, 20), (3, 10))) == -1
    assert page.tau(timed((1, 10), (2, 30), (3, 20))) == pytest.approx(1 / 3)
    assert page.tau(timed((1, 10), (2, 10), (3, 20))) == pytest.approx(2 / 6**0.5)
    assert page.tau(timed((1, 10), (2, 10))) == 0


def test_the_range_is_that_of_nine_of_ten_kernels(known) -> None:
    assert known.likely_us(10.0) == (9.0, 15.0)
    assert estimate_error.estimate_error("flash_mma", "1") is None


def test_a_gpu_on_which_nothing_was_measured_is_named(known) -> None:
    own, other = error_in_words("h200", "flash_mma"), error_in_words("l4", "flash_mma")

    assert own == (
        "of 120 flash_mma kernels, measured on h200, nine of ten took 0.90 to 1.50 times their estimate, "
        "the median 1.10 times; Kendall's tau within a problem 0.80"
    )
    assert other == f"for l4 nothing was measured; {own}"
    assert error_sentence("l4", "flash_mma").startswith("For l4 nothing was measured; of 120")


@pytest.mark.parametrize(
    ("estimates", "order"), [((11.71, 11.71), False), ((11.71, 11.74), False), ((11.71, 14.0), True)]
)
def test_estimates_nearer_than_the_models_error_have_no_order(estimates, order, known) -> None:
    assert has_order(estimates, "flash_mma") is order


def test_of_another_version_of_the_model_nothing_is_claimed(known) -> None:
    said = error_in_words("h200", "flash_mma", "1")

    assert said == "how far estimates are off is known of model 4, not of 1"


def test_of_a_family_that_no_gpu_timed_nothing_is_claimed(known) -> None:
    assert error_in_words("h200", "other") == (
        "no other kernel was measured, on h200 or elsewhere: how far the model is off is unknown"
    )
    assert not has_order((2.0, 14.0), "other")
    found = ties([11.7101, 11.7104, 11.9], "other")
    assert found is not None
    assert (found.equal, found.near, found.error) == (1, 0, None)
    assert found.in_words(" shown") == (
        "1 other kernel shown ties with the fastest: equal estimates of ~11.71 us.",
        "The model's error is unknown: estimates near one another are no order.",
    )


@pytest.mark.parametrize(
    ("estimates", "says"),
    [
        ([11.71, 14.0], ()),
        ([11.7101, 11.7104, 14.0], ("1 other kernel ties with the fastest: equal estimates of ~11.71 us.",)),
        (
            [11.74, 11.71, 11.71, 11.71, 12.0],
            (
                "2 other kernels tie with the fastest: equal estimates of ~11.71 us.",
                "2 more are nearer to the fastest than the model's error, 6 %: the model does not order "
                "these.",
            ),
        ),
    ],
)
def test_equal_estimates_are_a_tie_and_near_ones_no_order(estimates, says, known) -> None:
    found = ties(estimates, "flash_mma")

    assert found is not None
    assert found.says == says
    assert ties([], "flash_mma") is None
