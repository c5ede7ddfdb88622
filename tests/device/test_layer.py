"""The primitive layer: both sides say the same, compile for every target, and agree with NumPy."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from nvrtc_texts import compiled
from places import KERNELS
from tables import data

from evoflash.emulator import launch as emulator
from evoflash.kernels import ef_layer, gxx
from evoflash.launch import LaunchConfig
from evoflash.paths import DEVICE

Array = np.ndarray[Any, Any]


@contextmanager
def launched(
    file: str, entry: str, blocks: int, threads: int, arrays: dict[str, Array]
) -> Iterator[list[Array]]:
    """The arrays (those named out* are written) after a launch that reported nothing."""
    library = gxx.build((KERNELS / file).read_text(), name=entry)
    with emulator.Memory() as memory:
        given = [
            memory.array(name, array.shape, array.dtype, writable=name.startswith("out"), fill=array)
            for name, array in arrays.items()
        ]
        pointers = [np.uint64(array.ctypes.data) for array in given]
        launch = LaunchConfig(entry, (blocks, 1, 1), (threads, 1, 1), 2048)
        emulation = emulator.run_launch(library, launch, pointers)
        assert emulation.reports == ()
        yield given


def primitives(text: str) -> set[str]:
    """The functions that a header's text defines, by name."""
    return set(re.findall(r"^EF_DEV [^;{]*?\b(\w+)\(", text, flags=re.MULTILINE))


@pytest.mark.parametrize("header", ef_layer.headers())
def test_the_gpu_side_includes_nothing_of_others(header: str) -> None:
    assert re.findall(r'#include (?!"ef_\w+\.h")', ef_layer.gpu_text(header)) == []


@pytest.mark.parametrize("header", [*ef_layer.headers()][1:])
def test_each_primitive_can_be_cut_out_with_its_comment(header: str) -> None:
    for block in re.split(r"\n{2,}", ef_layer.headers()[header]):
        if re.search(r"^EF_DEV ", block, re.MULTILINE):
            assert len(primitives(block)) == 1
            assert re.match(r"(//.*\n)+(template <.*>\n)?EF_DEV ", block)
            assert block.endswith("}")


def test_a_user_sees_the_gpu_side_alone() -> None:
    """What export copies: no host side, no debug build, no lines."""
    for header, whole in [*ef_layer.headers().items()][1:]:
        text = ef_layer.gpu_text(header)
        assert primitives(text) == primitives(whole)
        for word in ("efemu", "EF_BOUNDED_WAITS", ", EF_LINE", "#if EF_GPU", "#if !EF_GPU"):
            assert word not in text


def test_all_headers_are_reached_from_the_facade() -> None:
    stored = {path.name for path in DEVICE.glob("*.h")}

    assert set(ef_layer.headers()) == stored | {ef_layer.WGMMA_SHAPES}


def nvrtc_ptx(source: str, arch: str, *flags: str) -> str:
    """A kernel's PTX, after ptxas has taken it too."""
    ptx, cubin = compiled(source, arch, *flags, headers=ef_layer.nvrtc_headers(source))
    assert cubin.startswith(b"\x7fELF")
    return ptx


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(
    "file", ["primitives.cu", "ampere_primitives.cu", "tiles.cu", "conversions.cu", "flash.cu"]
)
@pytest.mark.sample(7)
def test_the_test_kernels_compile_for_each_target(file: str, arch: str) -> None:
    nvrtc_ptx((KERNELS / file).read_text(), arch)


def test_hopper_primitives_compile() -> None:
    ptx = nvrtc_ptx((KERNELS / "hopper_primitives.cu").read_text(), "sm_90a")

    for rank in range(1, 6):
        forms = re.findall(rf"cp\.(?:reduce\.)?async\.bulk\.(?:prefetch\.)?tensor\.{rank}d\.\S+", ptx)
        assert len(set(forms)) == 8, rank
    assert "trap" not in ptx


def test_a_debug_build_waits_two_seconds_at_most() -> None:
    ptx = nvrtc_ptx((KERNELS / "hopper_primitives.cu").read_text(), "sm_90a", "-DEF_BOUNDED_WAITS")

    assert "%globaltimer" in ptx
    assert re.search(r"setp\.\w+\.u64 .*, 200000000[01];", ptx)  # nanoseconds
    assert "trap;" in ptx


def every_wgmma() -> str:
    """Kernels that use each shape with both element types, A in shared memory and in registers."""
    text = data(__file__, "every_wgmma_text")
    for n in range(8, 257, 8):
        text += f"""
extern "C" __global__ void __launch_bounds__(128) n{n}(float* out, ef::u64 a, ef::u64 b, bool more) {{
  both<{n // 2}>(out, a, b, more);
}}
EF_EXPORT_KERNEL(n{n})
"""
    return text


@pytest.mark.slow
@pytest.mark.full
def test_every_shape_of_wgmma_compiles() -> None:
    found = re.findall(
        r"(wgmma\.mma_async\S+) {([%f\d,]+)}, ({?).*, p, 1, 1, (.*);", nvrtc_ptx(every_wgmma(), "sm_90a")
    )

    expected = {
        (f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t}", n // 2, source, transposed)
        for n in range(8, 257, 8)
        for t in ("f16", "bf16")
        for source, transposed in (("", "0, 0"), ("", "1, 1"), ("{", "0"), ("{", "1"))
    }
    assert {(name, len(d.split(",")), source, t) for name, d, source, t in found} == expected


@pytest.mark.parametrize("file", ["ampere_primitives.cu", "hopper_primitives.cu"])
def test_the_host_side_compiles(file: str) -> None:
    gxx.build((KERNELS / file).read_text(), name=file.removesuffix(".cu"))


def test_every_wgmma_compiles_for_the_host() -> None:
    gxx.build(every_wgmma(), name="every_wgmma")


def test_every_primitive_is_in_some_test_kernel() -> None:
    kernels = "".join(path.read_text() for path in KERNELS.glob("*.cu"))
    names = set().union(
        *(primitives(text) for name, text in ef_layer.headers().items() if name != ef_layer.WGMMA_SHAPES)
    )
    unseen = {name for name in names if not re.search(rf"\bef::{name}\b", kernels)}

    assert unseen == set()


def test_every_primitive_runs_without_a_report() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-3, 4, 512)
    arrays = {
        "half": values.astype(np.float16),
        "out_half": np.zeros(64, np.float16),
        "brain": bf16_bits(values.astype(np.float32)),
        "out_brain": np.zeros(64, np.uint16),
        "out": np.zeros(64, np.float32),
    }
    with launched("primitives.cu", "primitives", 1, 64, arrays):
        pass


def bf16_bits(values: Array) -> Array:
    """Round to nearest even, by arithmetic on the bits; NaN is 0x7fff."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), rounded)


@pytest.fixture(scope="module")
def widened() -> Iterator[Sequence[Array]]:
    arrays = {
        "out_f16_float": np.zeros(65536, np.float32),
        "out_bf16_float": np.zeros(65536, np.float32),
        "out_f16": np.zeros(65536, np.uint16),
        "out_bf16": np.zeros(65536, np.uint16),
    }
    with launched("conversions.cu", "widen", 256, 256, arrays) as given:
        yield given


ALL_BITS = np.arange(65536, dtype=np.uint16)


def test_every_f16_becomes_the_float_that_numpy_makes_of_it(widened: Sequence[Array]) -> None:
    np.testing.assert_array_equal(
        widened[0].view(np.uint32), ALL_BITS.view(np.float16).astype(np.float32).view(np.uint32)
    )


def test_every_bf16_becomes_the_float_with_its_bits_on_top(widened: Sequence[Array]) -> None:
    np.testing.assert_array_equal(widened[1].view(np.uint32), ALL_BITS.astype(np.uint32) << 16)


@pytest.mark.parametrize(("floats", "bits"), [(0, 2), (1, 3)], ids=["f16", "bf16"])
def test_every_value_survives_the_round_trip(widened: Sequence[Array], floats: int, bits: int) -> None:
    expected = np.where(np.isnan(widened[floats]), np.uint16(0x7FFF), ALL_BITS)
    np.testing.assert_array_equal(widened[bits], expected)


def hard_floats() -> Array:
    """65,536 floats: every f16's neighbours, midpoints between f16s and between bf16s, and odd ones."""
    with np.errstate(invalid="ignore"):
        f16 = ALL_BITS[::4].view(np.float16).astype(np.float32)
        beside = np.nextafter(f16, np.float32(np.inf))
    midpoints = (f16.view(np.uint32) + np.uint32(0x1000)).view(np.float32)
    brains = (ALL_BITS[::8].astype(np.uint32) << 16) + np.uint32(0x8000)
    rng = np.random.default_rng(2)
    subnormal = (rng.standard_normal(8190) * 2.0**-20).astype(np.float32)
    edges = np.array([65519.996, 65520.0], np.float32)
    return np.concatenate([f16, beside, midpoints, brains.view(np.float32), subnormal, edges])


@pytest.fixture(scope="module")
def narrowed() -> Iterator[Sequence[Array]]:
    arrays = {
        "in": hard_floats(),
        "out_f16": np.zeros(65536, np.uint16),
        "out_bf16": np.zeros(65536, np.uint16),
        "out_f16_pair": np.zeros(65536, np.uint32),
        "out_bf16_pair": np.zeros(65536, np.uint32),
    }
    with launched("conversions.cu", "narrow", 256, 256, arrays) as given:
        yield given


def f16_bits(values: Array) -> Array:
    with np.errstate(over="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FFF), bits)


def test_floats_round_to_f16_as_numpy_rounds(narrowed: Sequence[Array]) -> None:
    np.testing.assert_array_equal(narrowed[1], f16_bits(narrowed[0]))


def test_floats_round_to_bf16_to_nearest_even(narrowed: Sequence[Array]) -> None:
    np.testing.assert_array_equal(narrowed[2], bf16_bits(narrowed[0]))


@pytest.mark.parametrize(("pair", "bits"), [(3, f16_bits), (4, bf16_bits)], ids=["f16", "bf16"])
def test_pairs_have_the_first_value_in_the_low_half(narrowed: Sequence[Array], pair: int, bits: Any) -> None:
    lo, hi = bits(narrowed[0]).astype(np.uint32), bits(-narrowed[0]).astype(np.uint32)
    np.testing.assert_array_equal(narrowed[pair], lo | hi << np.uint32(16))


def test_ldmatrix_distributes_the_elements_as_ptx_says() -> None:
    matrices = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    arrays = {"in": matrices.reshape(32, 8), "out": np.zeros((32, 12), np.uint32)}
    with launched("tiles.cu", "matrices", 1, 32, arrays) as (_, out):
        registers = out.copy()
    plain = matrices.reshape(4, 32, 2)  # lane l holds elements 2l and 2l + 1 in row-major order
    turned = matrices.transpose(0, 2, 1).reshape(4, 32, 2)
    whole = [(pair[:, :, 0] + (pair[:, :, 1].astype(np.uint32) << 16)).T for pair in (plain, turned)]
    expected = np.hstack([whole[0], whole[1], whole[0][:, :2], whole[1][:, :2]])
    np.testing.assert_array_equal(registers, expected)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_mma_of_small_integers_is_exact(kind: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.integers(-8, 9, (16, 16)), rng.integers(-8, 9, (8, 16))
    c = rng.integers(-99, 100, (16, 8)).astype(np.float32)
    stored = (lambda x: x.astype(np.float16)) if kind == "f16" else bf16_bits
    arrays = {"a": stored(a), "b": stored(b), "c": c, "out": np.zeros((16, 8), np.float32)}
    with launched("tiles.cu", f"multiply_{kind}", 1, 32, arrays) as given:
        np.testing.assert_array_equal(given[3], a @ b.T + c)


def test_shuffles_and_votes_reach_every_lane() -> None:
    lanes = np.arange(32)
    with launched("tiles.cu", "exchanges", 1, 32, {"out": np.zeros((32, 5), np.float32)}) as (out,):
        np.testing.assert_array_equal(out[:, 0], lanes ^ 5)
        np.testing.assert_array_equal(out[:, 1:], np.broadcast_to([3, 1, 1, 0], (32, 4)))
