"""`evoflash check` refuses what no GPU launches, and names the ef:: way for what it cannot see."""

from pathlib import Path

import pytest

from evoflash.app.check import subject as check_subject
from evoflash.app.check.lint import unseen_in
from evoflash.app.check.runs import CheckReport, check_kernel
from evoflash.app.check.subject import of_export
from evoflash.errors import UsageError
from evoflash.kernels.renderer import lint
from evoflash.kernels.standalone import export_values

HEAD = """/* evoflash check
entry = "k"
grid  = {grid}
block = {block}
smem  = {smem}
arguments = [
  {{ name = "x", dtype = "f32", shape = [512] }},
  {{ name = "y", dtype = "f32", shape = [512], out = true }},
  {{ name = "n", dtype = "u32", shape = [1], out = true, fill = "zeros" }},
]
*/
#include "ef.h"
{above}
extern "C" __global__ void __launch_bounds__(128) k(const float* x, float* y, ef::u32* n) {{
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (blockIdx.x > 3 || blockIdx.y > 0) return;
  {body}
}}
EF_EXPORT_KERNEL(k)
"""
COPY = "ef::stg(y + i, ef::ldg(x + i)); if (i == 0) ef::stg(n, 1u);"
# Each block takes its place by the order in which it comes.
TICKET = """const int ticket = ef::shfl_idx(threadIdx.x % 32 == 0 ? int(ef::atom_add(n, 1u)) : 0, 0);
  ef::stg(y + ticket * 32 + threadIdx.x % 32, ef::ldg(x + i));"""


def checked(
    tmp_path: Path, body: str = COPY, *, above: str = "", runs: int = 4, **launch: object
) -> CheckReport:
    path = tmp_path / "kernel.cu"
    values = {"grid": 4, "block": 128, "smem": 512} | launch
    path.write_text(HEAD.format(body=body, above=above, **values))
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    return check_kernel(subject, runs=runs, seed=1)


def kinds(found: CheckReport) -> list[str]:
    return [finding.kind for finding in found.findings]


def test_a_launch_within_the_limits_is_run(tmp_path: Path) -> None:
    assert kinds(checked(tmp_path)) == []


@pytest.mark.parametrize(
    ("launch", "says"),
    [
        ({"grid": "[4, 70000, 1]"}, "70000 blocks along y; a GPU launches at most 65535"),
        ({"grid": "[2000000000, 70000, 1]"}, "70000 blocks along y"),
        ({"block": 256}, "256 threads of k, whose __launch_bounds__ allow 128"),
        ({"smem": 900_000}, "900000 bytes of shared memory; no GPU gives a block more than 232448"),
    ],
)
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


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('printf("%d", i);', "ef::stg into an argument"),
        ("__shared__ float s[128];", "ef::smem_base()"),
        ("__syncthreads();", "ef::syncthreads()"),
        ("#include <cuda_fp16.h>", "ef::f16"),
        ('asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(v));', "ef::ex2"),
        ('__asm__("");', "the primitive that holds the instruction"),
        ("atomicAdd(n, max(1u, 2u));", "ef::atom_add"),
        ("x = __shfl_xor_sync(~0u, x, 1);", "ef::shfl_xor"),
    ],
)
def test_the_ef_way_is_named_for_what_the_emulator_cannot_see(line: str, instead: str) -> None:
    (said,) = lint(line)
    (finding,) = unseen_in([line], ((said.rpartition(" at line ")[0], 1),), shift=0)

    assert finding.kind == "unseen"
    assert instead in finding.remedy


def test_the_ef_way_stands_before_what_the_compiler_says(tmp_path: Path) -> None:
    found = checked(tmp_path, "__syncthreads();")

    assert kinds(found)[:2] == ["unseen", "compile"]
    assert "ef::syncthreads()" in found.findings[0].remedy


@pytest.mark.parametrize(
    ("body", "instead"),
    [
        ("__half h;", "ef::f16"),
        ("ef::stg(y + i, __ldg(x + i));", "ef::ldg(pointer)"),
        ("ef::stg(y + i, expf(1.0f));", "ef::ex2"),
        ("cg::this_thread_block().sync();", "ef::cluster_sync"),
    ],
)
def test_the_ef_way_is_named_for_what_the_compiler_does_not_know(
    tmp_path: Path, body: str, instead: str
) -> None:
    found = checked(tmp_path, body)

    assert kinds(found) == ["compile"]
    assert instead in found.findings[0].remedy


def test_an_exported_file_whose_ptx_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    text = export_values("flash_mma", [], problem="mission", gpu="l4")
    assert text.count("ex2.approx") >= 1
    path.write_text(text.replace("ex2.approx", "lg2.approx"))

    with pytest.raises(UsageError, match=r"PTX above the kernel .*lg2|PTX above the kernel .*ex2.*edited"):
        of_export(path, problem=None, gpu=None)
