"""The emulator finds planted bugs, stays silent on right kernels, counts truly, survives what it runs."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_faults import told
from places import KERNELS, environment
from tables import table_of_cases

from evoflash.emulator.launch import Emulation, Memory, run_launch
from evoflash.errors import DeviceError, UsageError
from evoflash.kernels import gxx
from evoflash.kernels.cached_files import is_whole_library
from evoflash.kernels.gxx import KernelBuildError, build
from evoflash.launch import LaunchConfig

FLASH = (KERNELS / "flash.cu").read_text()
FAULTS = (KERNELS / "faults.cu").read_text()
DELIVERIES = ("eager", "lazy", "random")
HEAD_DIM = 64


@dataclass(frozen=True)
class Outcome:
    """A run of flash.cu and the largest difference of its output from the reference."""

    emulation: Emulation
    error: float

    @property
    def kinds(self) -> set[str]:
        return {report.kind for report in self.emulation.reports}


def encode(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    if kind == "f16":
        return values.astype(np.float16)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def decode(stored: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    if kind == "f16":
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, *, causal: bool) -> np.ndarray:
    scores = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(HEAD_DIM)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def flash(
    *,
    bug: int = 0,
    kind: str = "f16",
    length: int = 192,
    heads: int = 1,
    causal: bool = False,
    cpu_limit_s: float = 10.0,
    **choices: Any,
) -> Outcome:
    library = build(f"#define BUG {bug}\n#define ELEMENT {kind}\n#line 1\n{FLASH}", name="flash")
    rng = np.random.default_rng(0)
    with Memory() as memory:
        stored = encode(rng.standard_normal((3, heads, length, HEAD_DIM)), kind)
        inputs = [memory.array(n, x.shape, x.dtype, fill=x) for n, x in zip("QKV", stored, strict=True)]
        output = memory.array("O", inputs[0].shape, inputs[0].dtype, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (*inputs, output)]
        scalars = (np.int32(length), np.int32(causal), np.float32(np.log2(np.e) / np.sqrt(HEAD_DIM)))
        launch = LaunchConfig("flash", (-(-length // 64), heads, 1), (128, 1, 1), 5 * 8192)
        emulation = run_launch(library, launch, [*pointers, *scalars], cpu_limit_s=cpu_limit_s, **choices)
        expected = attention(*(decode(array, kind) for array in inputs), causal=causal)
        return Outcome(emulation, float(np.abs(decode(output, kind) - expected).max()))


def fault(number: int, **choices: Any) -> Emulation:
    library = build(f"#define FAULT {number}\n#line 1\n{FAULTS}", name="faults")
    with Memory() as memory:
        given = memory.array("in", (4096,), np.int32, fill=np.arange(4096))
        result = memory.array("out", (64,), np.int32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (given, result)]
        return run_launch(library, LaunchConfig("faults", (1, 1, 1), (64, 1, 1), 1024), pointers, **choices)


def line_of(text: str, wanted: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if wanted in line)


# ---- right kernels


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("schedule", ["fifo", "random"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("length", "causal"), [(192, False), (100, False), (200, True)])
def test_a_right_kernel_computes_attention_without_a_report(
    delivery: str, schedule: str, kind: str, length: int, causal: bool
) -> None:
    outcome = flash(kind=kind, length=length, causal=causal, delivery=delivery, schedule=schedule)
    assert outcome.emulation.reports == ()
    assert outcome.error < {"f16": 2e-3, "bf16": 1e-2}[kind]


@table_of_cases()
def test_what_is_right_though_it_looks_odd_is_not_reported(number: int) -> None:
    assert fault(number).reports == ()


def test_equal_seeds_give_equal_runs() -> None:
    first, second = (flash(bug=1, seed=7).emulation for _ in range(2))
    assert (first.reports, first.counters) == (second.reports, second.counters)


# ---- planted bugs


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize(("bug", "kind"), told("flash"))
@pytest.mark.sample(7)
def test_a_planted_bug_is_named_under_every_delivery(bug: int, kind: str, delivery: str) -> None:
    assert kind in flash(bug=bug, delivery=delivery).kinds


def test_reading_beyond_a_tensor_is_reported_though_the_result_is_right() -> None:
    outcome = flash(bug=3, length=200)
    assert outcome.kinds == {"OOB-global"}
    assert outcome.error < 2e-3


@pytest.mark.parametrize(("number", "kind", "at"), told("threads"))
def test_a_fault_is_reported_with_its_line(number: int, kind: str, at: str) -> None:
    found = {report.kind: report for report in fault(number, cpu_limit_s=0.1, schedule="fifo").reports}
    # Where several lines look alike, the report must be within the few lines of that fault.
    expected, reach = line_of(FAULTS, at), 12 if at.startswith("#") else 0
    assert abs(found[kind].line - expected) <= reach


def test_a_race_names_both_lines() -> None:
    report = next(r for r in flash(bug=1).emulation.reports if r.kind == "race-WAR")
    lines = FLASH.splitlines()
    assert "cp_async16_zfill" in lines[report.line - 1]
    assert "ldmatrix" in lines[report.line2 - 1]


def test_a_deadlock_says_who_waits_for_what() -> None:
    (report,) = fault(13).reports
    assert "threads 0-31: bar_sync" in report.message
    assert "barrier 2: 32 of 64 threads have come" in report.message


def test_the_process_and_the_emulator_survive_every_fault() -> None:
    for number in (1, 3, 6, 7, 8):
        assert fault(number, cpu_limit_s=0.1).reports
    assert flash().emulation.reports == ()


def test_repeated_findings_are_one_report_with_a_count() -> None:
    (report,) = flash(bug=12).emulation.reports
    assert report.count > 1000


# ---- counters


def test_instructions_of_a_known_kernel_are_counted() -> None:
    length, warps, tiles = 192, 4, 3
    blocks = steps = length // 64
    counters = flash(length=length).emulation.counters
    per_tile = {"mma": 64, "ldmatrix": 32, "barrier": 2, "wait": 1, "ex2": 34, "shfl": 4}
    expected = {name: n * warps * tiles * blocks for name, n in per_tile.items()}
    expected["ldmatrix"] += 4 * warps * blocks  # Q
    expected["shfl"] += 4 * warps * blocks  # the row sums
    expected["cp_async"] = 4 * warps * (1 + 2 * steps) * blocks
    expected["stg"] = 16 * warps * blocks
    expected["commit"] = (1 + steps) * warps * blocks
    expected |= {"ctas": blocks, "threads": 128 * blocks, "lds": 0, "vote": 0}
    assert {name: counters[name] for name in expected} == expected


def test_the_swizzle_removes_the_bank_conflicts_that_its_absence_makes() -> None:
    with_swizzle, without = (flash(bug=bug).emulation.counters for bug in (0, 7))
    assert with_swizzle["smem_wavefronts"] == with_swizzle["smem_wavefronts_ideal"]
    ldmatrix_part = without["ldmatrix"] * 4
    assert without["smem_wavefronts"] - without["smem_wavefronts_ideal"] == 7 * ldmatrix_part


def test_uncoalesced_reads_cost_twice_the_sectors() -> None:
    rows, columns = (flash(bug=bug).emulation.counters["global_read_sectors"] for bug in (0, 8))
    assert rows == 3 * 192 * HEAD_DIM * 2 // 32 + 2 * 2 * 192 * HEAD_DIM * 2 // 32
    assert columns == 2 * rows


def test_a_site_gives_the_costs_of_its_line() -> None:
    sites = flash(bug=7).emulation.sites
    line = line_of(FLASH, "ef::ldmatrix_x4_trans")
    (site,) = [site for site in sites if site.line == line]
    assert (site.op, site.actual, site.ideal) == ("ldmatrix", 32 * site.requests, 4 * site.requests)


# ---- set-up and wrong use


def test_a_text_that_does_not_compile_raises_with_the_compilers_log() -> None:
    with pytest.raises(KernelBuildError, match=r"broken\.cu:2:.*error") as caught:
        build('#include "ef.h"\nint x = y;\n', name="broken")
    assert "'y' was not declared" in caught.value.log


@pytest.mark.parametrize(
    ("launch", "arguments", "reason"),
    [
        (LaunchConfig("nobody", (1, 1, 1), (64, 1, 1), 0), [np.uint64(0)] * 2, "no entry 'nobody'"),
        (LaunchConfig("faults", (1, 1, 1), (64, 1, 1), 0), [np.uint64(0)], "takes 2 arguments, 1 were given"),
        (
            LaunchConfig("faults", (1, 1, 1), (64, 1, 1), 0),
            [np.uint64(0), np.int32(0)],
            "argument 1 .* 8 bytes, 4",
        ),
        (LaunchConfig("faults", (1, 1, 1), (2048, 1, 1), 0), [np.uint64(0)] * 2, "1 to 1024 threads"),
    ],
)
def test_a_launch_that_does_not_fit_the_kernel_is_refused(
    launch: LaunchConfig, arguments: list[np.generic], reason: str
) -> None:
    library = build(f"#define FAULT 0\n#line 1\n{FAULTS}", name="faults")
    with pytest.raises(UsageError, match=reason):
        run_launch(library, launch, arguments)


def test_without_gxx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gxx.compiler_version.cache_clear()
    try:
        with pytest.raises(DeviceError, match=r"apt-get install g\+\+"):
            build("", name="nothing")
    finally:
        gxx.compiler_version.cache_clear()


def test_elsewhere_than_on_linux_the_error_says_where_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(DeviceError, match="needs Linux, this is Darwin: use WSL or a container"):
        gxx.runtime()


def test_one_text_built_by_several_at_once_is_whole() -> None:
    source = f"#define FAULT 0\n// built at once\n{FAULTS}"
    with ThreadPoolExecutor(4) as pool:
        libraries = {
            future.result() for future in [pool.submit(build, source, name="faults") for _ in range(4)]
        }
    (library,) = libraries
    assert sorted(path.name for path in library.parent.iterdir()) == ["faults.cu", "faults.so"]


@pytest.mark.parametrize("damage", ["cut", "changed", "of before digests"])
def test_a_library_that_is_not_as_it_was_built_is_built_again(damage: str) -> None:
    source = f"#define FAULT 0\n// damaged: {damage}\n{FAULTS}"
    library = build(source, name="faults")
    whole = library.read_bytes()
    assert build(source, name="faults").stat().st_mtime_ns == library.stat().st_mtime_ns
    middle = len(whole) // 2
    library.write_bytes(
        {
            "cut": whole[:middle],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "of before digests": whole[:-48],
        }[damage]
    )

    assert is_whole_library(build(source, name="faults"))


@pytest.mark.slow
@pytest.mark.full
def test_the_portable_stack_switch_gives_the_same_run() -> None:
    program = (
        "from evoflash.kernels import gxx\n"
        "gxx._RUNTIME_FLAGS += ('-DEFEMU_UCONTEXT', '-O0')\n"  # built in half the time
        "from tests.emulator import test_launch\n"
        "outcome = test_launch.flash(seed=3)\n"
        "print(outcome.emulation.reports, outcome.emulation.counters)\n"
        "print(test_launch.fault(3).reports[0].kind, test_launch.fault(13).reports[0].kind)\n"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment()).stdout
    here = flash(seed=3).emulation
    assert output.splitlines() == [f"{here.reports} {here.counters}", "stack-overflow DEADLOCK"]


def test_processes_that_come_at_once_build_one_runtime(tmp_path: Path) -> None:
    calls, compiler = tmp_path / "calls", tmp_path / "bin" / "g++"
    compiler.parent.mkdir()
    # Slow enough that the second process comes while the first one builds.
    compiler.write_text(
        f'#!/bin/sh\nfor word; do target=$word; done\ncase "$target" in --version) echo g++; exit;; esac\n'
        f'case "$*" in *"-o "*) echo call >> {calls}; sleep 0.5; touch "${{*##*-o }}";; esac\n'
    )
    compiler.chmod(0o755)
    paths = {
        "EVOFLASH_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": f"{compiler.parent}:{os.environ['PATH']}",
    }
    program = "from evoflash.kernels import gxx; print(gxx.runtime())"
    command = [sys.executable, "-c", program]
    both = [
        subprocess.Popen(command, env=environment(**paths), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    first, second = (process.communicate()[0] for process in both)
    assert first == second
    assert Path(first.strip()).exists()
    assert calls.read_text().count("call") == 4  # three parts and the link
