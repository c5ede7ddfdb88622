"""`evoflash check` sees what a kernel loads, stores and copies as plain C++ does, and at which line.

Barriers it counts by warps, as PTX does, and wants all lanes of a warp to come.
"""

from pathlib import Path

import pytest
from checked_text import checked_text, comments
from tables import data, table_of_cases

from evoflash.app.check.runs import CheckReport

HEAD, HEAD_OF_BARRIERS = data(__file__, "HEAD"), data(__file__, "HEAD_OF_BARRIERS")


def checked(folder: Path, body: str, above: str | None = None, name: str = "neighbours") -> CheckReport:
    text = HEAD.replace("ABOVE", above or "").replace("BODY", body.strip())
    return checked_text(folder, text.replace("neighbours", name))


@table_of_cases()
@pytest.mark.sample(8)
def test_a_fault_of_plain_accesses_is_found_at_its_line(tmp_path, body, above, kind, says):
    """The faulty line of each body ends in `// here`."""
    found = checked(tmp_path, body, above)

    assert comments(found, "error") == {kind: "here"}
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


@table_of_cases()
@pytest.mark.sample(4)
def test_lanes_that_do_not_come_with_their_warp_are_a_finding(tmp_path, body, kinds):
    found = checked_text(tmp_path, HEAD_OF_BARRIERS.replace("BODY", body.strip()))

    assert {each.kind for each in found.findings if each.severity == "error"} == set(kinds)
