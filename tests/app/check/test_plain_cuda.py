"""`evoflash check` runs plain CUDA as it stands, names its faults by line, and says what it cannot run."""

from pathlib import Path

import pytest
from checked_text import checked_text, comments
from tables import data, table_of_cases

from evoflash.app.check.runs import CheckReport
from evoflash.errors import UsageError

HEAD = data(__file__, "HEAD")


def checked(folder: Path, body: str, above: str | None = None) -> CheckReport:
    return checked_text(folder, HEAD.replace("ABOVE", above or "").replace("BODY", body.strip()))


@pytest.mark.sample(3)
@table_of_cases()
def test_a_fault_of_plain_cuda_is_found_at_its_line(tmp_path, body, above, kind, says):
    """The faulty line of each body ends in `// here`."""
    found = checked(tmp_path, body, above)

    wrong = comments(found, "error")
    assert wrong[kind] == "here"
    assert {*wrong} <= {kind, "uninit-shared", "race-RAW"}  # a race can also show as these, by the schedule
    assert says in next(each.message for each in found.findings if each.kind == kind)
    assert found.verdict == "failed"


@pytest.mark.sample(2)
@table_of_cases()
def test_right_plain_cuda_passes(tmp_path, body, above):
    found = checked(tmp_path, body, above)

    quiet = ("uncoalesced", "bank-conflict")
    assert [each for each in found.findings if each.kind not in quiet] == []
    assert found.verdict == "passed"


@pytest.mark.sample(1)
@table_of_cases()
def test_what_cannot_be_run_is_named_by_line(tmp_path, body, above, says):
    found = checked(tmp_path, body, above)

    assert comments(found, "warning") == {"gpu-only": "here"}
    assert says in found.findings[0].message
    assert (found.errors, found.verdict) == (0, "unjudged")


def test_an_entry_may_be_an_instance_of_a_template(tmp_path):
    text = HEAD.replace('"k"', '"k<64, true>"').replace("__global__", "template <int N, bool B>\n__global__")
    instance = "extern template __global__ void k<64, true>(const float*, float*, int);"
    declared = f"template <int, bool> __global__ void k(const float*, float*, int);\n{instance}"
    text = text.replace("__launch_bounds__(64)", "__launch_bounds__(N)").replace("ABOVE", declared)

    assert checked_text(tmp_path, text.replace("BODY", "y[i] = B ? x[i] : N;")).findings == ()


def test_an_entry_that_is_not_there_is_said(tmp_path):
    with pytest.raises(UsageError, match="no __global__ function 'other'"):
        checked_text(tmp_path, HEAD.replace('"k"', '"other"').replace("ABOVE", "").replace("BODY", ""))
