"""Clusters, resident and dependent launches: the header's keys, room for them, the driver's structures."""

import ctypes
import re
from pathlib import Path
from typing import Any

import pytest
from places import TESTS
from tables import table_of_cases

from evoflash.errors import TemplateError
from evoflash.gpu.driver import is_plain
from evoflash.kernels.family import Family, read_family
from evoflash.kernels.standalone import launcher
from evoflash.launch import LaunchConfig, does_not_fit
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.runtime.driver import Attribute, Config, launch_attributes
from evoflash.specs import load_gpu

HEADER = (TESTS / "gpu" / "two_launches.cu.j2").read_text()


def family_from(folder: Path, text: str) -> Family:
    path = folder / "two.cu.j2"
    path.write_text(text)
    return read_family(path)


def launches_of(family: Family, size: int) -> tuple[LaunchConfig, ...]:
    gpu = load_gpu("h200")
    genome = family.space((AttentionKey(64, "fp16", False, 1, "sm_90a"),), gpu).genome({"size": size})
    return family.launches(genome, AttentionWorkload(1, 2, 2, 64, 64, 64), gpu)


def test_the_header_says_cluster_resident_and_dependent(tmp_path: Path) -> None:
    family = family_from(tmp_path, HEADER)

    first, second = launches_of(family, 4)
    assert (first.cluster, first.resident, first.dependent) == ((4, 1, 1), True, False)
    assert (second.cluster, second.resident, second.dependent) == ((1, 1, 1), False, True)
    assert not launches_of(family, 2)[0].resident


@table_of_cases()
def test_a_malformed_launch_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        family_from(tmp_path, HEADER.replace(old, new))


@table_of_cases(tuples=True)
def test_what_a_gpu_has_no_room_for_is_said(launch: dict[str, Any], gpu: str, reason: str) -> None:
    found = does_not_fit(LaunchConfig(**launch), load_gpu(gpu), registers=128)

    if reason:
        assert re.search(reason, found)
    else:
        assert found == ""


def test_the_structures_are_laid_out_as_cuda_h_says() -> None:
    """Offsets and sizes as gcc gives them for CUlaunchConfig and CUlaunchAttribute of CUDA 13.0 on x86-64."""
    config, attribute = Config, Attribute

    assert [config.stream.offset, config.attributes.offset, config.attribute_count.offset] == [32, 40, 48]
    assert [attribute.value.offset, *map(ctypes.sizeof, (attribute, config))] == [8, 72, 56]


def attributes_of(launch: LaunchConfig) -> list[tuple[int, tuple[int, ...]]]:
    return launch_attributes(launch.cluster, resident=launch.resident, dependent=launch.dependent)


def test_each_wish_is_an_attribute() -> None:
    plain = LaunchConfig("k", (8, 1, 1), (128, 1, 1), 0)
    special = LaunchConfig("k", (8, 1, 1), (128, 1, 1), 0, cluster=(4, 2, 1), resident=True, dependent=True)

    assert is_plain(plain)
    assert attributes_of(plain) == []
    assert not is_plain(special)
    assert attributes_of(special) == [(4, (4, 2, 1)), (2, (1,)), (6, (1,))]


def test_an_exported_launcher_passes_them_on(tmp_path: Path) -> None:
    family, gpu = family_from(tmp_path, HEADER), load_gpu("h200")
    problem = parse_problem("mission")
    space = family.space(problem.compile_keys(gpu.arch), gpu)

    entries = {"first": "a_first_kernel", "second": "a_second_kernel"}
    text = launcher(family, space.genome({"size": 4}), problem, gpu, prefix="a", entries=entries)
    assert "launch(a_first_kernel, grids[0], dim3(128, 1, 1), 0, {cluster_of(4, 1, 1), resident()})" in text
    assert "launch(a_second_kernel, grids[1], dim3(64, 1, 1), 0, {dependent()})" in text
    assert "NonPortableClusterSize" not in text
