"""WMMA in the emulator: exact on integers, checked like every access, of a layout that nobody can guess."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from nvrtc_texts import compiled
from places import KERNELS
from tables import table_of_cases

from evoflash.emulator import launch as emulator
from evoflash.kernels import ef_layer, gxx
from evoflash.launch import LaunchConfig
from evoflash.paths import DEVICE

SOURCE = (KERNELS / "wmma.cu").read_text()
SMEM_BYTES = 3 * 16 * 48 * 4
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Run:
    """What a launch of wmma.cu reported, counted and computed, and what it should have computed."""

    emulation: emulator.Emulation
    found: Array  # two 16x16 matrices
    expected: Array

    @property
    def kinds(self) -> set[str]:
        return {report.kind for report in self.emulation.reports}


def stored(values: Array, kind: str) -> Array:
    if kind == "f16":
        return values.astype(np.float16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)  # exact for small integers


def wmma(kind: str = "f16", stride: int = 16, c_stride: int = 16, *, bug: int = 0, seed: int = 1) -> Run:
    library = gxx.build(f"#define BUG {bug}\n#line 1\n{SOURCE}", name=f"wmma_{kind}")
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-8, 9, (2, 16, 16))
    c = rng.integers(-99, 100, (16, 16)).astype(np.float32)
    inputs = {"a": stored(a, kind), "b": stored(b, kind), "c": c, "strides": np.int32([stride, c_stride])}
    with emulator.Memory() as memory:
        given = [memory.array(name, x.shape, x.dtype, fill=x) for name, x in inputs.items()]
        out = memory.array("out", (2, 16, 16), np.float32, writable=True)
        pointers = [np.uint64(array.ctypes.data) for array in (*given, out)]
        launch = LaunchConfig(f"wmma_{kind}", (1, 1, 1), (32, 1, 1), SMEM_BYTES)
        emulation = emulator.run_launch(library, launch, pointers, seed=seed)
        return Run(emulation, out.copy(), np.stack([3 * (a @ b.T) + c, a @ b + 7]))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("stride", "c_stride"), [(16, 16), (32, 24), (48, 40)])
def test_products_of_small_integers_are_exact_in_both_layouts(kind: str, stride: int, c_stride: int) -> None:
    run = wmma(kind, stride, c_stride)

    assert run.emulation.reports == ()
    np.testing.assert_array_equal(run.found, run.expected)


def test_bf16_rows_may_begin_at_any_16_bytes_and_f16_rows_may_not() -> None:
    """A bf16 fragment has 16 bytes, an f16 one 32, and the ISA aligns rows to the fragment."""
    assert wmma("bf16", stride=24).emulation.reports == ()
    assert "misaligned-shared" in wmma("f16", stride=24).kinds


def test_accumulator_rows_begin_at_multiples_of_32_bytes() -> None:
    assert "misaligned-shared" in wmma(c_stride=20).kinds


@pytest.mark.parametrize("seed", range(5))
def test_a_kernel_that_assumes_a_layout_is_wrong_without_any_report(seed: int) -> None:
    run = wmma(bug=7, seed=seed)
    as_hardware = run.expected.copy()
    as_hardware[1, :, 0] += 1

    assert run.emulation.reports == ()
    assert (run.found[1] != as_hardware[1]).sum() >= 8
    np.testing.assert_array_equal(run.found[0], run.expected[0])


def test_the_layout_changes_from_launch_to_launch() -> None:
    first, second = (wmma(bug=7, seed=seed) for seed in (1, 2))

    assert np.any(first.found[1] - first.expected[1] != second.found[1] - second.expected[1])


def test_equal_seeds_give_equal_layouts() -> None:
    np.testing.assert_array_equal(wmma(bug=7, seed=3).found, wmma(bug=7, seed=3).found)


@table_of_cases()
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.sample(6)
def test_a_planted_mistake_is_named_with_its_line(bug: int, kind: str, at: str, element: str) -> None:
    lines = {report.line for report in wmma(element, bug=bug).emulation.reports if report.kind == kind}

    wanted = next(number for number, line in enumerate(SOURCE.splitlines(), 1) if at in line)
    assert wanted in lines


def test_a_fragment_load_waits_for_copies_like_any_other() -> None:
    lazy = (
        SOURCE.replace(
            "ef::sts(address + (i / 16 * stride + i % 16) * u32(sizeof(T)), ef::ldg(matrix + i));",
            "if (i % 8 == 0) ef::cp_async16(address + (i / 16 * stride + i % 16) * 2, matrix + i);",
        )
        .replace("  place(c_tile, c, c_stride);\n", "")
        .replace("ef::wmma_load_c(second", "// ef::wmma_load_c(second")
    )
    library = gxx.build(lazy, name="wmma_f16")
    with emulator.Memory() as memory:
        halves = memory.array("halves", (2, 16, 16), np.float16)
        floats = memory.array("c", (16, 16), np.float32)
        strides = memory.array("strides", (2,), np.int32, fill=16)
        out = memory.array("out", (2, 16, 16), np.float32, writable=True)
        pointers = [np.uint64(x.ctypes.data) for x in (halves, halves[1:], floats, strides, out)]
        launch = LaunchConfig("wmma_f16", (1, 1, 1), (32, 1, 1), SMEM_BYTES)
        reports = emulator.run_launch(library, launch, pointers, delivery="lazy").reports

    assert "async-not-waited" in {report.kind for report in reports}


def test_half_a_warp_cannot_multiply() -> None:
    library = gxx.build(SOURCE, name="wmma_f16")
    with emulator.Memory() as memory:
        array = memory.array("all", (256,), np.float32)
        strides = memory.array("strides", (2,), np.int32, fill=16)
        out = memory.array("out", (512,), np.float32, writable=True)
        pointers = [np.uint64(x.ctypes.data) for x in (array, array, array, strides, out)]
        launch = LaunchConfig("wmma_f16", (1, 1, 1), (16, 1, 1), SMEM_BYTES)
        (report, *_) = emulator.run_launch(library, launch, pointers).reports

    assert report.kind == "divergence"
    assert "32 lanes" in report.message


def test_a_product_counts_as_two_mma_and_a_load_as_an_ldmatrix() -> None:
    counters = wmma("bf16", stride=24, c_stride=24).emulation.counters

    assert (counters["mma"], counters["ldmatrix"]) == (4, 3)
    assert counters["lds"] == 4 + 2 * 8  # the accumulator, then the results on their way out
    assert counters["sts"] == 2 * 4 + 3 * 8


def test_rows_of_32_words_conflict_and_padded_ones_do_not() -> None:
    """Eight rows of 16 bytes, 96 bytes apart, share four bank groups; 48 bytes apart they share none."""
    for stride, ways in ((48, 2), (24, 1)):
        sites = wmma("bf16", stride=stride).emulation.sites
        loads = [site for site in sites if site.op == "ldmatrix"]
        assert [site.actual / site.ideal for site in loads] == [ways] * 3


def test_narrow_copies_and_the_streaming_store_move_what_they_should() -> None:
    library = gxx.build(SOURCE, name="narrow_copies")
    values = np.arange(1, 257, dtype=np.uint32)
    with emulator.Memory() as memory:
        given = memory.array("in", (256,), np.uint32, fill=values)
        out = memory.array("out", (256,), np.uint32, writable=True)
        pointers = [np.uint64(x.ctypes.data) for x in (given, out)]
        launch = LaunchConfig("narrow_copies", (1, 1, 1), (32, 1, 1), 1024)
        emulation = emulator.run_launch(library, launch, pointers)
        found = out.copy()

    inside = np.arange(32) % 3 != 0
    four, eight, sixteen = values[:32], values[32:96].reshape(32, 2), values[96:224].reshape(32, 4)
    np.testing.assert_array_equal(found[:32], np.where(inside, four, 0))
    copied = np.concatenate([np.where(inside[:, None], part, 0).ravel() for part in (eight, sixteen)])
    np.testing.assert_array_equal(found[32:96], copied[:64])
    np.testing.assert_array_equal(found[128:], copied[64:])
    assert emulation.reports == ()


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_the_gpu_side_compiles_for_each_target(arch: str) -> None:
    _, cubin = compiled(SOURCE, arch, f"-I{DEVICE}", f"-I{ef_layer.made_headers()}")
    assert cubin.startswith(b"\x7fELF")
