"""Writes evoflash/device/ef_wgmma_shapes.h: one asm statement for each shape, element type and home of A.

`--check` writes nothing and exits 1 when the file differs. NVRTC takes some 14 ms to parse all of them.
"""

import argparse
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "evoflash" / "device" / "ef_wgmma_shapes.h"
WIDTHS = range(8, 257, 8)
TYPES = ("f16", "bf16")
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")
    text = header()
    if not parser.parse_args().check:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        print(f"{TARGET.name} is not what scripts/wgmma_shapes.py writes: run it.", file=sys.stderr)
        return 1
    return 0


def header() -> str:
    """The file's text."""
    shapes = [(n, element) for n in WIDTHS for element in TYPES]
    return HEAD + "".join(from_shared(*shape) + from_registers(*shape) for shape in shapes) + TAIL


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


def registers(count: int) -> str:
    """The accumulator's operand numbers in braces, sixteen to a line of string."""
    lines = [",".join(f"%{i}" for i in range(first, min(first + 16, count))) for first in range(0, count, 16)]
    lines = [f"{'{' if i == 0 else ''}{line}" for i, line in enumerate(lines)]
    return (
        '"\n'.join(f'               "{line},' for line in lines[:-1])
        + ('"\n' if lines[1:] else "")
        + (f'               "{lines[-1]}}}, "')
    )


def accumulator(count: int) -> str:
    """The accumulator's operands, eight to a line."""
    operands = [f'"+f"(d[{i}])' for i in range(count)]
    lines = [", ".join(operands[first : first + 8]) for first in range(0, count, 8)]
    return (",\n" + " " * 8).join(lines)


if __name__ == "__main__":
    sys.exit(main())
