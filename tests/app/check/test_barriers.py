"""`evoflash check` counts barriers by warps, as PTX does, and wants all lanes of a warp to come."""

import pytest
from tables import data, table_of_cases

from evoflash.app.check import subject as check_subject
from evoflash.app.check.runs import check_kernel

HEAD = data(__file__, "HEAD")


@table_of_cases()
@pytest.mark.sample(4)
def test_lanes_that_do_not_come_with_their_warp_are_a_finding(tmp_path, body, kinds):
    path = tmp_path / "kernel.cu"
    path.write_text(HEAD.replace("BODY", body.strip()))
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    found = check_kernel(subject, runs=2, seed=1)

    assert {each.kind for each in found.findings if each.severity == "error"} == set(kinds)
