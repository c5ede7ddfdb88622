"""A pass of `evoflash check` says what it rests on, and without anything compared there is none."""

import pytest
from checked_text import checked_text
from places import TESTS
from tables import table_of_cases

from evoflash.app.catalogue import primitive_groups, primitives_text
from evoflash.app.check.runs import CheckReport, reports_as_dict
from evoflash.app.check.text_findings import unseen_lines

SMALL = (TESTS / "app" / "check" / "small.cu").read_text()


def checked(folder, body: str, *, old: str = "", new: str = "") -> CheckReport:
    return checked_text(folder, SMALL.replace("BODY", body).replace(old or SMALL, new), runs=1, name="small")


def test_a_pass_says_what_was_compared_and_what_was_not(tmp_path):
    found = checked(tmp_path, "x[threadIdx.x] = n;")
    document = reports_as_dict([found])

    assert document["verdict"] == document["checked"][0]["verdict"] == "passed"
    assert "x bit for bit between 2 runs" in document["checked"][0]["compared"][0]
    assert "0 plain reads and 64 plain writes" in document["checked"][0]["seen"][0]
    assert any("Nothing ran on a GPU" in each for each in document["checked"][0]["not_compared"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("out = true }", "fill = 1 }"), ("out = true }", "out = true, fill = 0 }")]
)
def test_a_kernel_that_changes_no_output_has_passed_nothing(tmp_path, old, new):
    found = checked(tmp_path, "if (n < 0) x[threadIdx.x] = n;", old=old, new=new)

    assert (found.errors, found.verdict) == (0, "unjudged")
    assert reports_as_dict([found])["verdict"] == "unjudged"


@table_of_cases()
def test_what_g_plus_plus_does_not_see_is_found_by_line(text, lines):
    assert [each.line for each in unseen_lines(text)] == lines


def test_the_list_of_primitives_is_that_of_the_headers():
    signatures = [signature for group in primitive_groups() for signature, _ in group.primitives]

    assert "void bar_sync(int id, int threads)" in signatures
    assert "template <class T> T ldg(const T* source)" in signatures
    assert len(signatures) > 150
    assert all(about.endswith(".") for group in primitive_groups() for _, about in group.primitives)
    assert "ef_barrier.h: " in primitives_text()
