"""Makes of a plain CUDA file the text that NVRTC compiles, and finds its kernel in the machine code.

Host code is left out, and of what the text includes all but CUDA's own headers for the GPU: NVRTC runs in a
process of this user and reads what it is told to. Compiles nothing.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.kernels.nvrtc import function_names
from evoflash.kernels.plain_cuda import blank_comments, own_headers, without_host

_HEADERS = re.compile(
    r"<(?:cuda_(?:fp16|bf16|fp8|fp6|fp4|pipeline|pipeline_primitives|awbarrier)\.h|mma\.h|math_constants\.h|"
    r"cooperative_groups\.h|cooperative_groups/\w+\.h|cuda/(?:std/)?\w+|type_traits|limits)>"
)
_INCLUDE = re.compile(
    r"^[ \t\v\f]*(?:#|%:|\?\?=)[ \t\v\f]*(?:include|include_next|import|embed)\b[ \t]*(.*)$", re.MULTILINE
)
# What nvcc's host headers bring and NVRTC lacks: libcu++ has it, and takes seconds.
_PRELUDE = """using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
using intptr_t = long long;
using ptrdiff_t = long;
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623157e+308
#define CHAR_BIT 8
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LLONG_MAX 9223372036854775807ll
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define M_PI 3.14159265358979323846
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_SQRT2 1.41421356237309504880
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
"""


def text_for_nvrtc(text: str, entries: Sequence[str], *, name: str, folder: Path) -> str:
    """The file's device code, its lines as they are under the name `NAME.cu`."""
    headers, code = (_device_code(each) for each in (own_headers(text, folder), text))
    # A template's kernel is compiled where its address is taken.
    instances = "".join(
        f'#pragma nv_diag_suppress 177\nextern "C" {{ __device__ const void* const evoflash_entry_{at} = '
        f"(const void*)&{entry}; }}\n"
        for at, entry in enumerate(entries)
        if "<" in entry
    )
    return f'{_PRELUDE}#line 1 "headers"\n{headers}\n#line 1 "{name}.cu"\n{code}\n{instances}'


def _device_code(text: str) -> str:
    code = without_host(blank_comments(text))
    # A directive may go on behind a spliced end of line.
    spliced = len(_INCLUDE.findall(code.replace("\\\n", ""))) != len(_INCLUDE.findall(code))
    if spliced:
        code = re.sub(r"\\\n", lambda _: " \n", code)
    return _INCLUDE.sub(_kept_include, code)


def _kept_include(include: re.Match[str]) -> str:
    named = include[1].strip()
    return f"#include {named}" if _HEADERS.fullmatch(named) else ""


def symbol_in(cubin: Path, entry: str) -> str:
    """The kernel's name in the machine code, which C++ decorates. UsageError where it is not one alone."""
    names = function_names(cubin.read_bytes())
    base = re.split(r"[<(]", entry)[0].rpartition("::")[2].strip()
    found = [name for name in names if name == base] or [name for name in names if _is_of(name, base)]
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} kernels of the machine code are called '{entry}', the comment's entry: "
            "give it a name of its own."
        )
    return found[0]


def _is_of(decorated: str, base: str) -> bool:
    return re.search(rf"(?<!\d){len(base)}{re.escape(base)}(?![a-z_])", decorated) is not None
