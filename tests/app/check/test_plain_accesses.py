"""`evoflash check` sees what a kernel loads, stores and copies as plain C++ does, and at which line."""

from pathlib import Path

import pytest
from tables import data, table_of_cases

from evoflash.app.check import subject as check_subject
from evoflash.app.check.runs import CheckReport, check_kernel

HEAD = data(__file__, "HEAD")


def checked(folder: Path, body: str, above: str | None = None, name: str = "neighbours") -> CheckReport:
    path = folder / "kernel.cu"
    text = HEAD.replace("ABOVE", above or "").replace("BODY", body.strip())
    path.write_text(text.replace("neighbours", name))
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    return check_kernel(subject, runs=2, seed=1)


def errors(found: CheckReport) -> dict[str, str]:
    """The comment on the line of each error, by its kind."""
    lines = found.subject.shown.splitlines()
    wrong = (each for each in found.findings if each.severity == "error")
    return {each.kind: lines[each.line - 1].partition("//")[2].strip() for each in wrong}


@table_of_cases()
@pytest.mark.sample(8)
def test_a_fault_of_plain_accesses_is_found_at_its_line(tmp_path, body, above, kind, says):
    """The faulty line of each body ends in `// here`."""
    found = checked(tmp_path, body, above)

    assert errors(found) == {kind: "here"}
    assert says in next(each.message for each in found.findings if each.kind == kind)


@table_of_cases()
@pytest.mark.sample(3)
def test_right_plain_code_passes(tmp_path, body, above):
    found = checked(tmp_path, body, above)

    quiet = ("uncoalesced", "unwritten-output")
    assert [each for each in found.findings if each.kind not in quiet] == []
    assert len(found.runs) == 2


@pytest.mark.parametrize("name", ["y0", "index", "scale"])
def test_the_entry_that_runs_is_the_kernels_own(tmp_path, name):
    """Two of them are also functions of the C library, which the process has loaded before."""
    found = checked(tmp_path, "workspace[i] = y[i] = x[i];", name=name)

    assert found.findings == ()
