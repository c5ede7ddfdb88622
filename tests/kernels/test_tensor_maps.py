"""Tensor maps, zeroed workspaces and atomics, from a template's header to emulator, compiler and export."""

import os
import shutil
import subprocess

import pytest
from nvrtc_texts import compiled
from places import TEMPLATES
from tables import table_of_cases

from evoflash.app.check.subject import of_genome
from evoflash.emulator.preflight import preflight
from evoflash.errors import TemplateError
from evoflash.evaluation import Status
from evoflash.kernels.family import load_family, read_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel
from evoflash.launch import TensorMapSpec, geometry
from evoflash.operations.attention.forms.dense import tensors
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import Problem
from evoflash.specs import load_gpu

H200 = load_gpu("h200")
WORKLOAD = AttentionWorkload(1, 4, 2, 70, 50, 64, causal=True)
BOXES = TEMPLATES / "boxes.cu.j2"


@pytest.fixture
def family(use_templates):
    use_templates(BOXES.parent)
    return load_family("boxes")


def genome_of(family, **values):
    return family.space((WORKLOAD.compile_key("sm_90a"),), H200).genome(values)


def candidate_of(family, **values):
    return render(genome_of(family, **values), WORKLOAD.compile_key("sm_90a"), H200)


def test_a_launch_says_what_maps_its_kernel_takes(family):
    """In the header's order; one whose condition does not hold is no argument."""
    (launch,) = family.launches(genome_of(family, block_n=16, o_out="box"), WORKLOAD, H200)
    (without,) = family.launches(genome_of(family, block_n=16, o_out="plain"), WORKLOAD, H200)

    assert launch.maps == (
        TensorMapSpec("K", (1, 1, 16, 64)),
        TensorMapSpec("V", (1, 1, 16, 64), l2_promotion=128),
        TensorMapSpec("O", (1, 1, 32, 64)),
    )
    assert without.maps == launch.maps[:2]
    assert (launch.workspace_bytes, launch.zeroed_bytes) == (4, 4)


def test_a_family_says_when_its_sums_depend_on_who_comes_first(family):
    assert not family.is_deterministic
    assert load_family("flash_simt").is_deterministic


@pytest.mark.parametrize("o_out", ["box", "plain"])
def test_preflight_hands_over_maps_and_zeros(family, o_out):
    """The second launch on the same workspace would take no work if the counter were not zero again."""
    candidate = candidate_of(family, block_n=8, o_out=o_out)

    assert preflight(candidate, family, H200, seed=1).complaint == ""


def test_a_counter_that_is_not_reset_is_reported(family):
    found = preflight(candidate_of(family, resets=False), family, H200, seed=1)

    assert found.complaint.startswith("workspace-not-zeroed")
    assert found.status is Status.RUNTIME


def test_check_gives_a_genome_its_maps(family):
    (subject,) = of_genome(genome_of(family, block_n=16), Problem((WORKLOAD,)), H200)

    assert all([each.of for each in case.launches[0].maps] == ["K", "V", "O"] for case in subject.cases)


def test_the_kernel_compiles_for_hopper(family):
    build = compile_candidate(candidate_of(family))

    assert build.ok, build.log


def test_the_exported_file_compiles_with_nvrtc_alone(family):
    text = export_kernel(genome_of(family), Problem((WORKLOAD,)), H200)

    compiled(text, "sm_90a")


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, of CUDA 12 or later")
@pytest.mark.parametrize("o_out", ["box", "plain"])
@pytest.mark.sample(1)
@pytest.mark.full
def test_the_exported_program_needs_no_driver_to_link(family, tmp_path, o_out):
    """cuTensorMapEncodeTiled is found at run time: a program linked here must not ask for libcuda."""
    text = export_kernel(genome_of(family, o_out=o_out), Problem((WORKLOAD,)), H200)
    (tmp_path / "kernel.cu").write_text(text)

    command = ["nvcc", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "kernel.cu", "-o", "kernel"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ})

    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr
    needed = subprocess.run(["readelf", "-d", "kernel"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert "NEEDED" in needed
    assert "libcuda.so" not in needed


@pytest.mark.parametrize(
    ("wanted", "dims", "strides", "box"),
    [
        (TensorMapSpec("Q", (1, 2, 3, 4)), (64, 70, 4, 5), (128, 128 * 70, 128 * 70 * 4), (4, 3, 2, 1)),
        (TensorMapSpec("K", (1, 2, 3, 4)), (64, 50, 2, 5), (128, 128 * 50, 128 * 50 * 2), (4, 3, 2, 1)),
        (
            TensorMapSpec("O", (1, 2, 3, 4), heads_inside=True),
            (64, 4, 70, 5),
            (128 * 70, 128, 128 * 70 * 4),
            (4, 2, 3, 1),
        ),
    ],
    ids=["of queries", "of keys", "heads inside"],
)
def test_a_map_is_described_contiguous_dimension_first(wanted, dims, strides, box):
    workload = AttentionWorkload(5, 4, 2, 70, 50, 64)

    spec = next(spec for spec in tensors(workload) if spec.name == wanted.of)
    strides_bytes = [2 * stride for stride in spec.strides]

    assert geometry(wanted, spec.shape, strides_bytes) == (dims, strides, box)


@table_of_cases()
def test_a_malformed_map_names_itself(tmp_path, old, new, complaint):
    text = BOXES.read_text()
    assert text.count(old) == 1
    path = tmp_path / "boxes.cu.j2"
    path.write_text(text.replace(old, new))

    with pytest.raises(TemplateError, match=complaint):
        read_family(path)
