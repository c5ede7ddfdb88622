"""Writes ef_wgmma_shapes.h, the one header that is not stored. Compiles nothing.

It has an asm statement for each shape of wgmma, element type and home of A. ef_wgmma.h includes it. NVRTC
takes some 14 ms to parse all of them.
"""

import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path

from evoflash.paths import cache_dir

NAME = "ef_wgmma_shapes.h"
WIDTHS = range(8, 257, 8)
TYPES = ("f16", "bf16")
# Stored results and exported files have a hash of the layer: so the first line keeps its words, though it is
# this module that writes the file.
HEAD = """\
// The wgmma instructions, one function for each shape. Written by scripts/wgmma_shapes.py: change it there.
//
// wgmma_ss and wgmma_rs (ef_wgmma.h) choose among them; kernels call those.
#pragma once
#include "ef_base.h"

#if EF_GPU
namespace ef {

"""
TAIL = """\
}  // namespace ef
#endif
"""


@cache
def header() -> str:
    """The file's text."""
    shapes = [(n, element) for n in WIDTHS for element in TYPES]
    return HEAD + "".join(from_shared(*shape) + from_registers(*shape) for shape in shapes) + TAIL


def folder() -> Path:
    """A folder in the cache that has the file, for compilers that read files; written on first use."""
    text = header()
    place = cache_dir() / "emulator" / hashlib.sha256(text.encode()).hexdigest()[:24]
    if not (place / NAME).exists():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=place, delete=False) as file:
            file.write(text)
        os.replace(file.name, place / NAME)
    return place


def from_shared(n: int, element: str) -> str:
    """The function for A in shared memory."""
    d = n // 2
    return f"""\
// A 64 x {n} accumulator; {element}, A in shared memory.
template <int TRANS_A, int TRANS_B>
EF_DEV void wgmma_shape_ss(float (&d)[{d}], u64 a, u64 b, int scale_d, {element}) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{d + 2}, 0; "
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} "
{registers(d)}
               "%{d}, %{d + 1}, p, 1, 1, %{d + 3}, %{d + 4};}}"
      : {accumulator(d)}
      : "l"(a), "l"(b), "r"(scale_d), "n"(TRANS_A), "n"(TRANS_B));
}}

"""


def from_registers(n: int, element: str) -> str:
    """The function for A in registers."""
    d = n // 2
    a = ", ".join(f"%{d + i}" for i in range(4))
    return f"""\
// A 64 x {n} accumulator; {element}, A in registers.
template <int TRANS_B>
EF_DEV void wgmma_shape_rs(float (&d)[{d}], const u32 (&a)[4], u64 b, int scale_d, {element}) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{d + 5}, 0; "
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} "
{registers(d)}
               "{{{a}}}, %{d + 4}, p, 1, 1, %{d + 6};}}"
      : {accumulator(d)}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(TRANS_B));
}}

"""


@cache
def registers(count: int) -> str:
    """The accumulator's operand numbers in braces, sixteen to a line of string."""
    lines = [",".join(f"%{i}" for i in range(first, min(first + 16, count))) for first in range(0, count, 16)]
    lines = [f"{'{' if i == 0 else ''}{line}" for i, line in enumerate(lines)]
    return (
        '"\n'.join(f'               "{line},' for line in lines[:-1])
        + ('"\n' if lines[1:] else "")
        + (f'               "{lines[-1]}}}, "')
    )


@cache
def accumulator(count: int) -> str:
    """The accumulator's operands, eight to a line."""
    operands = [f'"+f"(d[{i}])' for i in range(count)]
    lines = [", ".join(operands[first : first + 8]) for first in range(0, count, 8)]
    return (",\n" + " " * 8).join(lines)
