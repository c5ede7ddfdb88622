"""What export copies of the ef:: layer: the functions and wgmma shapes that a kernel uses, GPU side only."""

import re

import pytest
from nvrtc_texts import compiled
from places import KERNELS
from tables import data

from evoflash.kernels import ef_layer

KERNEL = data(__file__, "KERNEL")


def shapes(text: str) -> set[str]:
    """Every wgmma in a text: 'n64k16.f32.f16 ss' and the like."""
    found = re.findall(r"wgmma_shape_(\w\w)\(.*\n.*\n.*m64(n\d+k16\.f32\.b?f16)\.", text)
    return {f"{shape} {source}" for source, shape in found}


def test_an_export_holds_just_the_wgmma_in_use() -> None:
    text = ef_layer.primitives(KERNEL)

    assert shapes(text) == {"n112k16.f32.bf16 ss"}


def test_a_size_that_is_not_plain_arithmetic_keeps_every_shape() -> None:
    text = ef_layer.primitives(KERNEL.replace("BLOCK_N / 2", "pick(BLOCK_N)"))

    assert {shape.split("k")[0] for shape in shapes(text)} == {f"n{n}" for n in range(8, 257, 8)}


def test_the_element_type_that_a_kernel_does_not_name_stays_away() -> None:
    f16, both = (
        ef_layer.primitives(f"ef::pack2(x, y, {tags})") for tags in ("ef::f16()", "ef::f16(), ef::bf16()")
    )

    assert [text.count("u32 pack2(float lo, float hi, ") for text in (f16, both)] == [1, 2]


def test_what_a_function_needs_comes_along_and_no_more() -> None:
    text = ef_layer.primitives("ef::cluster_sync(); ef::lds<float>(0);")

    assert re.findall(r"^EF_DEV \S+ (\w+)\(", text, re.MULTILINE) == [
        *("lds", "cluster_arrive", "cluster_wait", "cluster_sync")
    ]
    assert "is_register_size" in text


@pytest.mark.parametrize(
    ("file", "arch"),
    [("primitives.cu", "sm_80"), ("ampere_primitives.cu", "sm_80"), ("hopper_primitives.cu", "sm_90a")],
)
def test_the_copied_functions_compile_without_the_headers(file: str, arch: str) -> None:
    text = (KERNELS / file).read_text()

    compiled(ef_layer.primitives(text) + text.replace('#include "ef.h"\n', ""), arch)


def test_a_kernel_without_wgmma_is_spared_the_shapes() -> None:
    names, sizes = {}, {}
    for source in ("ef::mma_m16n8k16(d, a, b0, b1, tag);", "ef::wgmma_commit();"):
        texts, names[source] = ef_layer.nvrtc_headers(source)
        sizes[source] = [len(text) for text in texts]
    plain, wgmma = sizes.values()

    assert len(set(map(tuple, names.values()))) == 1
    assert [a for a, b in zip(plain, wgmma, strict=True) if a != b] == [0]
