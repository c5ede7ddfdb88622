"""The text of the ef:: layer, and just those of its GPU functions that a kernel uses. Compiles nothing.

The headers keep a layout for this module (see ef_base.h): blocks with a blank line between them and none
inside, each a comment and one top-level thing. One of them is not stored but written here.
"""

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from evoflash.paths import DEVICE, cache_dir, put_in_cache, writing_to_cache

_INCLUDE = re.compile(r'^#include "(ef_\w+\.h)"', re.MULTILINE)
_FRAME = re.compile(r"^(#pragma once|#include .*|namespace ef {|}  // namespace ef)\n", re.MULTILINE)
_PLACE = re.compile(r" ?\bEF_(ONLY_)?LINE\b")
_COMMENT = re.compile(r"//[^\n]*")
_FUNCTION = re.compile(r"^EF_DEV [^;{]*?\b(\w+)\(", re.MULTILINE)
_OTHER_NAMES = (
    re.compile(r"^struct (?:__align__\(\d+\) )?(\w+)", re.MULTILINE),
    re.compile(r"^constexpr \w+ (\w+)", re.MULTILINE),
    re.compile(r"\b([A-Z]\w+) = \d+"),  # of an enumeration
    re.compile(r"^#define (\w+)", re.MULTILINE),
)
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.operator, ast.Name, ast.expr_context, ast.Constant)
# Conditions of the preprocessor that are settled in the text that goes to users: GPU, not a debug build.
_SETTLED = {
    "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)": True,
    "#if EF_GPU": True,
    "#if !EF_GPU": False,
    "#ifdef EF_BOUNDED_WAITS": False,
}

WGMMA_SHAPES = "ef_wgmma_shapes.h"
_WIDTHS = range(8, 257, 8)
_TYPES = ("f16", "bf16")
# Stored results and exported files have a hash of the layer: so the first line keeps its words, though it is
# this module that writes the file.
_HEAD = """\
// The wgmma instructions, one function for each shape. Written by scripts/wgmma_shapes.py: change it there.
//
// wgmma_ss and wgmma_rs (ef_wgmma.h) choose among them; kernels call those.
#pragma once
#include "ef_base.h"

#if EF_GPU
namespace ef {

"""
_TAIL = """\
}  // namespace ef
#endif
"""


@dataclass(frozen=True)
class LayerBlock:
    """One top-level piece of the layer as the GPU sees it, with the names that it defines."""

    text: str
    names: tuple[str, ...]
    is_function: bool

    @property
    def code(self) -> str:
        """The text without its comments."""
        return _COMMENT.sub("", self.text)


@cache
def headers() -> dict[str, str]:
    """All headers' texts by name: ef.h, then in the order in which the compiler reads them."""
    names = ("ef.h", *_includes("ef.h", set()))
    return {name: _text(name) for name in names}


@cache
def device_headers_sha() -> str:
    """A hash over the ef:: layer: a kernel compiled against another layer is another kernel."""
    digest = hashlib.sha256()
    for name in sorted([WGMMA_SHAPES, *(path.name for path in DEVICE.glob("*.h"))]):
        digest.update((name + _text(name)).encode())
    return digest.hexdigest()


def source_sha(source: str) -> str:
    """A hash of a kernel's text together with the ef:: layer that it is compiled with."""
    return hashlib.sha256((source + device_headers_sha()).encode()).hexdigest()


def nvrtc_headers(source: str) -> tuple[list[bytes], list[bytes]]:
    """What NVRTC is given beside a source: the headers' texts and their names.

    The shapes of wgmma take 14 ms to parse, a seventh of what a kernel without them takes: it gets none.
    """
    unused = () if "wgmma_" in source else (WGMMA_SHAPES,)
    texts = [b"" if name in unused else text.encode() for name, text in headers().items()]
    return texts, [name.encode() for name in headers()]


def primitives(kernel: str) -> str:
    """The part of the layer that a kernel text uses, in the layer's order, in namespace ef."""
    sizes = accumulator_sizes(kernel)
    blocks = [block for block in _blocks() if not _is_useless(block, kernel, sizes)]
    used = _reachable(blocks, kernel)
    macros = [_quiet(block.text) for block in used if block.text.startswith("#define")]
    rest = [block.text for block in used if not block.text.startswith("#define")]
    return "\n\n".join(("\n".join(macros), "namespace ef {", *rest, "}  // namespace ef")) + "\n"


def _quiet(macros: str) -> str:
    """Of a primitive's overloads a kernel may use just one: nvcc is not to warn of the others."""
    return macros.replace("#define EF_DEV static", "#define EF_DEV [[maybe_unused]] static")


def gpu_text(name: str) -> str:
    """A header as the GPU's compiler sees it in a build for users; conditions on the architecture stay."""
    lines: list[str] = []
    states: list[bool | None] = []  # of the open conditions: settled as true or false, or left in the text
    for line in headers()[name].splitlines():
        if line.startswith("#if"):
            states.append(_SETTLED.get(line))
        is_settled = line.startswith(("#if", "#else", "#endif")) and states[-1] is not None
        if not is_settled and False not in states:
            lines.append(line if line.startswith("#") else _PLACE.sub("", line))
        if line == "#else" and is_settled:
            states[-1] = not states[-1]
        if line == "#endif":
            states.pop()
    return "\n".join(lines) + "\n"


def accumulator_sizes(kernel: str) -> set[int] | None:
    """The N of every `acc<N>` in a kernel's text; None where one is not plain arithmetic on its constants."""
    constants: dict[str, int] = {}
    for name, expression in re.findall(r"^constexpr \w+ (\w+) = ([^;]+);", kernel, re.MULTILINE):
        value = _integer(expression, constants)
        if value is not None:
            constants[name] = value
    # A template's own parameter has its values where the template is used, with accumulators of those sizes.
    parameters = set(re.findall(r"\bint (\w+)\s*[,>]", kernel))
    words = set(re.findall(r"\bacc<([^<>]+)>", kernel)) - parameters
    sizes = {_integer(word, constants) for word in words}
    return None if None in sizes else {size for size in sizes if size is not None}


def _integer(expression: str, names: dict[str, int]) -> int | None:
    try:
        tree = ast.parse(expression.strip().replace("/", "//"), mode="eval")
    except SyntaxError:
        return None
    if not all(isinstance(node, _ARITHMETIC) for node in ast.walk(tree)):
        return None
    try:
        value = eval(compile(tree, "", "eval"), {"__builtins__": {}}, dict(names))
    except (NameError, TypeError, ZeroDivisionError):
        return None
    return value if isinstance(value, int) else None


def _text(name: str) -> str:
    is_made = name == WGMMA_SHAPES
    return wgmma_shapes() if is_made else (DEVICE / name).read_text(encoding="utf-8")


def _includes(name: str, seen: set[str]) -> list[str]:
    found: list[str] = []
    for included in _INCLUDE.findall(_text(name)):
        if included not in seen:
            seen.add(included)
            found += [*_includes(included, seen), included]
    return found


@cache
def _blocks() -> tuple[LayerBlock, ...]:
    """The layer's blocks in order, without the lines that make a file a header."""
    blocks: list[LayerBlock] = []
    for name in [*headers()][1:]:
        text = gpu_text(name)
        text = _FRAME.sub("", text[text.index("#pragma once") :])
        blocks += [_block(part) for part in re.split(r"\n{2,}", text.strip())]
    return tuple(blocks)


def _block(text: str) -> LayerBlock:
    function = _FUNCTION.search(text)
    if function:
        return LayerBlock(text, (function[1],), True)
    return LayerBlock(text, tuple(name for pattern in _OTHER_NAMES for name in pattern.findall(text)), False)


def _reachable(blocks: list[LayerBlock], kernel: str) -> list[LayerBlock]:
    """The blocks that the kernel names (with ef::, or macros) and those that these name in turn."""
    reached = [not block.names or any(_names(kernel, name) for name in block.names) for block in blocks]
    fresh = [block for block, is_in in zip(blocks, reached, strict=True) if is_in]
    while fresh:
        words = set(re.findall(r"\w+", " ".join(block.code for block in fresh)))
        fresh = []
        for number, block in enumerate(blocks):
            if not reached[number] and words.intersection(block.names):
                reached[number] = True
                fresh.append(block)
    return [block for block, is_in in zip(blocks, reached, strict=True) if is_in]


def _names(kernel: str, name: str) -> bool:
    return (name if name.startswith("EF_") else f"ef::{name}") in _words(kernel)


@lru_cache(maxsize=4)
def _words(kernel: str) -> frozenset[str]:
    return frozenset(re.findall(r"\bef::\w+", kernel)) | frozenset(re.findall(r"\w+", kernel))


def _is_useless(block: LayerBlock, kernel: str, sizes: set[int] | None) -> bool:
    """Whether a function is for an element type, or a shape of wgmma, that the kernel does not use."""
    if not block.is_function:
        return False
    (signature,) = re.findall(r"^EF_DEV [^{]*", block.code, re.MULTILINE)
    types = set(re.findall(r"\b(b?f16)\b", signature))
    if types and not any(_names(kernel, name) for name in types):
        return True
    shape = re.search(r"\bwgmma_shape_\w+\(float \(&d\)\[(\d+)\]", signature)
    return shape is not None and sizes is not None and int(shape[1]) not in sizes


@cache
def wgmma_shapes() -> str:
    """The text of the one header that is not stored: an asm statement for each shape of wgmma, element type
    and home of A. ef_wgmma.h includes it.
    """
    shapes = [(n, element) for n in _WIDTHS for element in _TYPES]
    of_16_bits = "".join(_from_shared(*shape) + _from_registers(*shape) for shape in shapes)
    return _HEAD + of_16_bits + "".join(map(_of_8_bits, _WIDTHS)) + _TAIL


def made_headers() -> Path:
    """A folder in the cache that has that header, for compilers that read files; written on first use."""
    text = wgmma_shapes()
    place = cache_dir() / "emulator" / hashlib.sha256(text.encode()).hexdigest()[:24]
    kept = place / WGMMA_SHAPES
    if not kept.exists() or kept.read_bytes() != text.encode():
        with writing_to_cache():
            put_in_cache(kept, text.encode())
    return place


def _from_shared(n: int, element: str) -> str:
    d = n // 2
    return f"""\
// A 64 x {n} accumulator; {element}, A in shared memory.
template <int TRANS_A, int TRANS_B>
EF_DEV void wgmma_shape_ss(float (&d)[{d}], u64 a, u64 b, int scale_d, {element}) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{d + 2}, 0; "
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} "
{_registers(d)}
               "%{d}, %{d + 1}, p, 1, 1, %{d + 3}, %{d + 4};}}"
      : {_accumulator(d)}
      : "l"(a), "l"(b), "r"(scale_d), "n"(TRANS_A), "n"(TRANS_B));
}}

"""


def _from_registers(n: int, element: str) -> str:
    d = n // 2
    a = ", ".join(f"%{d + i}" for i in range(4))
    return f"""\
// A 64 x {n} accumulator; {element}, A in registers.
template <int TRANS_B>
EF_DEV void wgmma_shape_rs(float (&d)[{d}], const u32 (&a)[4], u64 b, int scale_d, {element}) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{d + 5}, 0; "
               "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{element}.{element} "
{_registers(d)}
               "{{{a}}}, %{d + 4}, p, 1, 1, %{d + 6};}}"
      : {_accumulator(d)}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(TRANS_B));
}}

"""


def _of_8_bits(n: int) -> str:
    """The function for e4m3, A in shared memory; k runs along memory in both operands."""
    d = n // 2
    return f"""\
// A 64 x {n} accumulator; e4m3, A in shared memory.
EF_DEV void wgmma_shape_e4m3(float (&d)[{d}], u64 a, u64 b, int scale_d) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, %{d + 2}, 0; "
               "wgmma.mma_async.sync.aligned.m64n{n}k32.f32.e4m3.e4m3 "
{_registers(d)}
               "%{d}, %{d + 1}, p, 1, 1;}}"
      : {_accumulator(d)}
      : "l"(a), "l"(b), "r"(scale_d));
}}

"""


@cache
def _registers(count: int) -> str:
    """The accumulator's operand numbers in braces, sixteen to a line of string."""
    lines = [",".join(f"%{i}" for i in range(first, min(first + 16, count))) for first in range(0, count, 16)]
    lines = [f"{'{' if i == 0 else ''}{line}" for i, line in enumerate(lines)]
    return (
        '"\n'.join(f'               "{line},' for line in lines[:-1])
        + ('"\n' if lines[1:] else "")
        + (f'               "{lines[-1]}}}, "')
    )


@cache
def _accumulator(count: int) -> str:
    """The accumulator's operands, eight to a line."""
    operands = [f'"+f"(d[{i}])' for i in range(count)]
    lines = [", ".join(operands[first : first + 8]) for first in range(0, count, 8)]
    return (",\n" + " " * 8).join(lines)
