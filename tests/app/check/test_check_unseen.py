"""`evoflash check` refuses what no GPU launches, and names the ef:: way for what it cannot see."""

from pathlib import Path

import pytest
from checked_text import checked_text
from tables import data, table_of_cases

from evoflash.app.check.runs import CheckReport
from evoflash.app.check.subject import of_export
from evoflash.app.check.text_findings import unseen_in
from evoflash.errors import UsageError
from evoflash.kernels.lint import lint
from evoflash.kernels.standalone import export_values

HEAD = data(__file__, "HEAD")
COPY = "ef::stg(y + i, ef::ldg(x + i)); if (i == 0) ef::stg(n, 1u);"
# Each block takes its place by the order in which it comes.
TICKET = """const int ticket = ef::shfl_idx(threadIdx.x % 32 == 0 ? int(ef::atom_add(n, 1u)) : 0, 0);
  ef::stg(y + ticket * 32 + threadIdx.x % 32, ef::ldg(x + i));"""


def checked(
    tmp_path: Path, body: str = COPY, *, above: str = "", runs: int = 4, **launch: object
) -> CheckReport:
    values = {"grid": 4, "block": 128, "smem": 512} | launch
    return checked_text(tmp_path, HEAD.format(body=body, above=above, **values), runs=runs)


def kinds(found: CheckReport) -> list[str]:
    return [finding.kind for finding in found.findings]


def test_a_launch_within_the_limits_is_run(tmp_path: Path) -> None:
    assert kinds(checked(tmp_path)) == []


@table_of_cases()
@pytest.mark.sample(1)
def test_what_no_gpu_launches_is_an_error_without_a_gpu_named(
    tmp_path: Path, launch: dict[str, object], says: str
) -> None:
    found = checked(tmp_path, **launch)

    assert "cannot-launch" in kinds(found)
    assert says in next(f.message for f in found.findings if f.kind == "cannot-launch")
    assert found.errors >= 1


def test_a_kernel_that_is_right_in_ascending_order_of_its_blocks_alone_is_reported(tmp_path: Path) -> None:
    found = checked(tmp_path, TICKET)

    assert "schedule-dependent" in kinds(found)
    remedy = next(f.remedy for f in found.findings if f.kind == "schedule-dependent")
    assert "right only where they come in ascending order" in remedy


@pytest.mark.parametrize("kept", ["static int counter;", "__device__ float cache[512];"])
def test_what_outlives_a_launch_is_an_error(tmp_path: Path, kept: str) -> None:
    found = checked(tmp_path, above=kept, runs=1)

    assert kinds(found)[0] == "kept-state"
    assert found.errors == 1


@table_of_cases()
def test_the_ef_way_is_named_for_what_the_emulator_cannot_see(line: str, instead: str) -> None:
    (finding,) = unseen_in(lint(line), shift=0)

    assert finding.kind == "unseen"
    assert instead in finding.remedy


def test_the_ef_way_stands_before_what_the_compiler_says(tmp_path: Path) -> None:
    found = checked(tmp_path, "__syncthreads();")

    assert kinds(found)[:2] == ["unseen", "compile"]
    assert "ef::syncthreads()" in found.findings[0].remedy


@table_of_cases()
def test_the_ef_way_is_named_for_what_the_compiler_does_not_know(
    tmp_path: Path, body: str, instead: str
) -> None:
    found = checked(tmp_path, body)

    (error,) = (finding for finding in found.findings if finding.kind == "compile")
    assert instead in error.remedy


def test_an_exported_file_whose_ptx_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    text = export_values("flash_mma", [], problem="mission", gpu="l4")
    assert text.count("ex2.approx") >= 1
    path.write_text(text.replace("ex2.approx", "lg2.approx"))

    with pytest.raises(UsageError, match=r"PTX above the kernel .*lg2|PTX above the kernel .*ex2.*edited"):
        of_export(path, problem=None, gpu=None)
