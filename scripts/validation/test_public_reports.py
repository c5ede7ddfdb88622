"""A few of the public reports are tried in each test run; the script tries all of them."""

import pytest

from scripts.validation.public_reports import REPORTS, tried

CHEAP = [report for report in REPORTS if report.get("cheap")]


def test_there_are_twenty_of_them_each_with_its_address() -> None:
    assert len({report["id"] for report in REPORTS}) == len({report["of"] for report in REPORTS}) == 20
    assert all(report["of"].startswith("https://github.com/") for report in REPORTS)


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("report", CHEAP, ids=[report["id"] for report in CHEAP])
def test_what_was_reported_of_another_tool_is_not_so_here(report) -> None:
    found = tried(report)

    assert found["holds"] is not False, found["said"]
