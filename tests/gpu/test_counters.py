"""Nsight Compute as a program that is there, missing, forbidden, old, killed or endless; and what it prints.

In its place stands a shell script that prints what the real one printed on an H100: no GPU is needed.
"""

import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tables import data, table_of_cases
from waiting import LIMIT_S, is_alive, until

from evoflash.errors import DeviceError
from evoflash.gpu import counters
from evoflash.gpu.process.rungs import GpuTask
from evoflash.hardware_counters import KernelProfile
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.strategies.operators import operators

HERE = Path(__file__).parent / "counters"
OPERATORS_WORDS = {word for each in operators() for word in each.trait.bottlenecks}
WORKLOADS = parse_problem("b=1,h=8,s=1024,d=64").workloads
TASK = GpuTask("0" * 16, load_gpu("h100"), (), (), (), 0)


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script in PATH in place of ncu; what it is to do is `put` there."""
    path = folder / "bin" / "ncu"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")
    return path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return stand_in(tmp_path, monkeypatch)


def put(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{data(__file__, 'SCRIPT')}\n".replace("PROFILE", text))
    program.chmod(0o755)


@pytest.fixture
def pages(program: Path) -> Path:
    return copy_pages(program)


def copy_pages(program: Path) -> Path:
    """Beside the script, the pages that it prints."""
    for name in ("raw.csv", "source.csv"):
        shutil.copy(HERE / name, program.parent)
    return program.parent


@table_of_cases()
def test_what_was_counted_says_what_binds_each_launch_and_how_far_it_is_from_it(
    program, pages, launch, figures, shares, stalls, instructions, says, remedy
) -> None:
    put(program, 'touch "$report"')
    found = counters.profile(TASK, WORKLOADS)
    assert found.tool == "Nsight Compute 2025.3.1.0"
    counted = found.launches[str(WORKLOADS[0])][launch]
    assert {name: round(getattr(counted, name), 4) for name in figures} == figures
    assert dict(itertools.islice(counted.shares.items(), 3)) == shares
    assert dict(itertools.islice(counted.stalls.items(), 2)) == stalls
    assert dict(itertools.islice(counted.instructions.items(), 2)) == instructions
    assert (counted.says, counted.remedy) == (says, remedy)
    assert KernelProfile.of_dict(json.loads(json.dumps(found.as_dict()))).longest.us == found.longest.us


def test_units_of_any_size_and_figures_that_are_missing_come_to_the_same(pages) -> None:
    source = (pages / "source.csv").read_text()
    exact = counters.counters_of((HERE / "raw.csv").read_text(), source)
    text = (HERE / "raw_in_units.csv").read_text()
    for found, expected in zip(counters.counters_of(text, source), exact, strict=True):
        assert found.us == expected.us
        assert found.sm_ghz == pytest.approx(expected.sm_ghz, rel=1e-5)
        assert found.shares == pytest.approx(expected.shares, abs=1e-4)
        assert found.limit == expected.limit
    lacking = counters.counters_of(text.replace('"37.545964"', '"n/a"'), "")[0]
    assert "dram" not in lacking.shares
    assert lacking.instructions == {}
    assert lacking.says.startswith("Bound by latency: no unit is full (the L2 cache 44% and ")


@table_of_cases()
def test_a_launch_is_bound_by_a_unit_by_its_launch_or_by_latency(changes, limit, says) -> None:
    first = counters.counters_of((HERE / "raw.csv").read_text(), "")[0]
    found = replace(first, **changes)
    assert (found.limit, found.limit in OPERATORS_WORDS) == (limit, True)
    assert says in found.says


@table_of_cases()
def test_a_profiler_that_fails_says_so_in_one_line_with_what_to_do(program, does, said) -> None:
    put(program, does)
    with pytest.raises(DeviceError) as failed:
        counters.profile(TASK, WORKLOADS)
    assert said in str(failed.value)
    assert str(failed.value).endswith(".")
    assert "\n" not in str(failed.value)


def test_a_profiler_that_is_not_there_is_named_with_where_to_get_it(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(counters, "_PLACES", ())
    assert counters.missing_profiler().startswith("Nsight Compute is not installed")
    with pytest.raises(DeviceError, match="nsight-compute"):
        counters.profile(TASK, WORKLOADS)


def test_a_profiler_that_does_not_end_is_ended_with_all_that_it_started(program, tmp_path) -> None:
    put(program, f"sleep {LIMIT_S:g} & echo $! > {tmp_path}/child; wait")
    with pytest.raises(DeviceError, match="took over 1 s and was ended"):
        counters.profile(TASK, WORKLOADS, limit_s=1.0)
    child = int((tmp_path / "child").read_text())
    until(lambda: not is_alive(child), what="the end of what it started")
