"""Every planted fault of tests/faults gives its report, with kind and line, whenever async copies land."""

from collections.abc import Iterator
from functools import cache

import pytest
from fault_corpus import Fault, Found, faults, kernels, run

DELIVERIES = ("eager", "lazy", "random")
SHARED = frozenset({"lds", "sts", "ldmatrix", "stmatrix", "cp_async_shared"})
CORPUS = [fault for kernel in kernels() for fault in faults(kernel)]


def cases() -> Iterator[object]:
    """Every fault; by default the first of each kind of report in each kernel."""
    seen = set()
    for fault in CORPUS:
        kind = fault.kernel, fault.expect_kind
        marks = pytest.mark.full if kind in seen else ()
        seen.add(kind)
        yield pytest.param(fault, id=f"{fault.kernel}-{fault.name}", marks=marks)


@cache
def right(kernel: str) -> Found:
    return run(kernel, None, delivery="lazy")


def excess(found: Found, kind: str, part: str) -> float:
    """How much more than the ideal the lines with `part` in them cost; 1 is nothing."""
    sites = [
        site
        for site in found.sites
        if part in found.line(site.line) and (site.op in SHARED) == (kind == "bank-conflict")
    ]
    assert sites, f"no access at a line with '{part}'"
    return max(site.actual / site.ideal for site in sites)


@pytest.mark.parametrize("kernel", kernels())
@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.sample(10)
def test_the_kernels_are_right_before_they_are_patched(kernel: str, delivery) -> None:
    found = run(kernel, None, delivery=delivery, schedule="random")

    assert (found.reports, found.wrong) == ((), "")


@pytest.mark.parametrize("fault", list(cases()))
@pytest.mark.sample(20)
def test_a_planted_fault_gives_its_report(fault: Fault) -> None:
    for delivery in DELIVERIES:
        found = run(fault.kernel, fault, delivery=delivery)
        if delivery not in fault.deliveries:
            assert found.reports
        elif fault.expect_kind == "wrong-result":
            assert found.reports == ()
            assert found.wrong
        elif fault.expect_kind in ("bank-conflict", "uncoalesced"):
            assert (found.reports, found.wrong) == ((), "")
            before = excess(right(fault.kernel), fault.expect_kind, fault.expect_line)
            assert excess(found, fault.expect_kind, fault.expect_line) >= 1.5 * before
        else:
            told = [(r.kind, found.line(r.line), found.line(r.line2), r.message) for r in found.reports]
            assert any(
                kind == fault.expect_kind
                and fault.expect_line in line
                and fault.expect_line2 in line2
                and fault.expect_message in message
                for kind, line, line2, message in told
            ), (delivery, told)
            assert not (fault.right and found.wrong)


def test_the_corpus_is_large_and_its_names_are_unique() -> None:
    names = [(fault.kernel, fault.name) for fault in CORPUS]

    assert len(set(names)) == len(names) >= 40
    assert all(fault.expect_line for fault in CORPUS if fault.expect_kind != "wrong-result")
