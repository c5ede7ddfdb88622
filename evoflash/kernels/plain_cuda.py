"""Makes of a plain CUDA file the text that g++ compiles for the emulator, and NVRTC's. Compiles nothing.

Host code is left out, and every line stays where it is. For g++ shared arrays and inline PTX become calls of
the emulator, and what cannot run there is named with its line. For NVRTC, which runs in a process of this
user and reads what it is told to, all that the text includes is left out but CUDA's own headers for the GPU.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.kernels.lint import Refusal
from evoflash.kernels.nvrtc import function_names
from evoflash.kernels.ptx_text import UnknownPtxError, balanced_end, calls_for, parts_of

_PIECE = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z)', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
_WORD = re.compile(r'[A-Za-z_]\w*|\d[\w.]*|"[^"\n]*"|::|[^\s\w]')
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.MULTILINE)
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s|\\\n)*(?:(?:volatile|__volatile__)\b(?:\s|\\\n)*)?\(")
_CONSTANT = re.compile(r"\b__constant__\b(?P<rest>[^;{}()=]*=)")
_SHARED = re.compile(r"\b__shared__\b")
_ON_GPU = {"__global__", "__device__", "__shared__", "__constant__", "__managed__", "constexpr", "EF_DEV"}
_TYPES = {"struct", "class", "union", "enum", "using", "typedef", "static_assert"}
_HOST_NAMES = {"torch", "at", "c10", "thrust", "pybind11", "py"}
_LAUNCH = re.compile(r"[\w:]+(?:\s*<[^;<>{}]*>)?\s*<<<.*?>>>\s*\([^;]*\)", re.DOTALL)
_BEYOND = (
    (r"\b(?:cute|cutlass)::", "a name of CUTLASS"),
    (r"\bcub::", "a name of CUB"),
    (r"\bthrust::", "a name of Thrust"),
    (r"\bcuda::(?!std)", "a name of libcu++"),
    (r"\bCUtensorMap\b", "a tensor map of the driver's (TMA)"),
    (r"\bthis_grid\b|\bthis_cluster\b|\bgrid_group\b", "a cooperative group of a grid or a cluster"),
    (r"\btex(?:1D|2D|3D)\w*|\bcudaTextureObject_t\b", "a texture"),
)
INSTEAD = "only a GPU can judge it; or write it with ef:: (evoflash check --primitives)"


@dataclass(frozen=True, slots=True)
class PlainText:
    """What g++ is given, and what the emulator has no way to run."""

    source: str
    unseen: tuple[Refusal, ...]
    kernels: tuple[str, ...]  # the names of its __global__ functions


def is_plain(text: str) -> bool:
    """Whether the text is CUDA's alone: it does not include ef.h."""
    return not re.search(r'^\s*#\s*include\s+"ef\.h"', text, re.MULTILINE)


def entry_symbol(entry: str) -> str:
    """A kernel's name, template arguments and all, as one word."""
    return re.sub(r"\W+", "_", entry).strip("_")


def plain_text(text: str, entries: Sequence[str], *, name: str = "kernel", headers: str = "") -> PlainText:
    """The text for g++, with the entries exported ("kernel" or "kernel<128>").

    `name` is that of its file without .cu; `headers` the text of those of its own that it includes.
    """
    before, of_headers = _prepared_text(headers) if headers else ("", [])
    code, found = _prepared_text(text)
    source = (
        f'#include "cuda_names.h"\n#line 1 "headers"\n{before}\n'
        f'#line 1 "/{name}.cu"\n{code}\n{"".join(map(_export, entries))}\n'
    )
    # What a header does is told at the kernel's include of it, its first line.
    first_include = next((_line(text, each.start()) for each in _OWN_INCLUDE.finditer(text)), 1)
    named = [*(Refusal(each.what, first_include, each.instead) for each in of_headers), *found]
    first = {each.line: each for each in reversed(named)}
    return PlainText(source, tuple(first[line] for line in sorted(first)), kernel_names(code))


_OWN_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([\w.-][\w./-]*)"', re.MULTILINE)


def own_headers(text: str, folder: Path, known: set[Path] | None = None) -> str:
    """The text of the headers beside a file that it includes in quotes, and of those that they include."""
    seen: set[Path] = known if known is not None else set()
    parts = []
    for each in _OWN_INCLUDE.finditer(blank_comments(text)):
        path = (folder / each[1]).resolve()
        if path in seen or not path.is_relative_to(folder.resolve()) or not path.is_file():
            continue
        seen.add(path)
        inside = path.read_text(encoding="utf-8", errors="replace")
        parts += [own_headers(inside, folder, seen), inside]
    return "\n".join(filter(None, parts))


def _prepared_text(text: str) -> tuple[str, list[Refusal]]:
    """The text without host code, with calls of the emulator in it, and what the emulator cannot run."""
    code = blank_comments(text)
    code = _INCLUDE.sub("", code)
    code = without_host(code)
    found: list[Refusal] = []
    for pattern, what in _BEYOND:
        found += [Refusal(what, _line(code, each.start()), INSTEAD) for each in re.finditer(pattern, code)]
    code = _CONSTANT.sub(_as_const, code)
    code = _with_shared(code)
    code, of_asm = _without_asm(code)
    for each in _LAUNCH.finditer(code):
        found.append(
            Refusal("a launch from a kernel (dynamic parallelism)", _line(code, each.start()), INSTEAD)
        )
    code = _LAUNCH.sub(lambda each: _stop("a launch from a kernel (dynamic parallelism)", each[0]), code)
    return code, [*found, *of_asm]


def _as_const(declared: re.Match[str]) -> str:
    """A constant that the file itself fills lies where nobody can write."""
    is_const = "const" in declared["rest"] or re.search(
        r"\bconst(expr)?\s*$", declared.string[: declared.start()]
    )
    return ("" if is_const else "const") + declared["rest"]


def kernel_names(code: str) -> tuple[str, ...]:
    """The __global__ functions that are defined or declared, in their order."""
    found = re.finditer(
        r"\b__global__\b(?:[^;{}()]|__launch_bounds__\s*\([^{};]*?\)(?=\s*[\w:*\s]*\())*?\b(\w+)\s*\(", code
    )
    names = (each[1] for each in found if each[1] not in ("__launch_bounds__", "__cluster_dims__"))
    return tuple(dict.fromkeys(names))


def _export(entry: str) -> str:
    if re.fullmatch(r"\w+", entry):
        return f"EF_EXPORT_KERNEL({entry})"
    symbol = entry_symbol(entry)
    return f'extern "C" {{ ::efemu::Kernel efemu_kernel_{symbol} = ::efemu::describe({entry}); }}'


def blank_comments(code: str) -> str:
    """The code with blanks in place of its comments."""
    return _PIECE.sub(_blank_comment, code)


def _blank_comment(piece: re.Match[str]) -> str:
    if piece[0][0] != "/":
        return piece[0]
    return re.sub(r"[^\n]", " ", piece[0])


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1


def _newlines(text: str) -> str:
    """The ends of lines that a replaced text had; within a macro they stay spliced."""
    return "".join(re.findall(r"\\?\n", text))


def _stop(what: str, text: str) -> str:
    return f'::efemu::stop_kernel("gpu-only", "{what}", __LINE__){_newlines(text)}'


# ---- host code


def without_host(code: str) -> str:
    """The code with blanks in place of what is for the host."""
    macros = set()
    for each in _DIRECTIVE.finditer(code):
        made = re.match(r"\s*#\s*define\s+(\w+)(.*)", each[0], re.DOTALL)
        if made and _ON_GPU & set(re.findall(r"\w+", made[2])):
            macros.add(made[1])
    bare = _DIRECTIVE.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), code)
    words = [(each[0], each.start(), each.end()) for each in _WORD.finditer(bare)]
    pieces = list(code)
    for begin, end in _host_parts(words, _ON_GPU | macros):
        for at in range(words[begin][1], words[end - 1][2]):
            if bare[at] != "\n" and not bare[at].isspace():
                pieces[at] = " "
    return "".join(pieces)


_Words = Sequence[tuple[str, int, int]]


def _host_parts(words: _Words, on_gpu: set[str]) -> Iterator[tuple[int, int]]:
    """The declarations at file scope that are not for the GPU: from one word to another."""
    at = 0
    while at < len(words):
        word = words[at][0]
        following = words[at + 1][0] if at + 1 < len(words) else ""
        if word in (";", "}"):
            at += 1
            continue
        if word == "namespace" or (word == "inline" and following == "namespace"):
            brace = next((i for i in range(at, len(words)) if words[i][0] in ("{", ";")), len(words))
            at = brace + 1
            continue
        if word == "extern" and following == '"C"' and words[at + 2 : at + 3] and words[at + 2][0] == "{":
            at += 3
            continue
        end = _end_of_declaration(words, at)
        if not _is_for_gpu([each[0] for each in words[at:end]], on_gpu):
            yield at, end
        at = end


def _end_of_declaration(words: _Words, at: int) -> int:
    while at < len(words):
        word = words[at][0]
        if word == ";":
            return at + 1
        if word in ("(", "[", "{"):
            at = _closing(words, at)
            if word == "{" and not (at + 1 < len(words) and words[at + 1][0] in (";", ",", "=")):
                return at + 1
        elif word == "}":
            return at
        at += 1
    return len(words)


def _closing(words: _Words, at: int) -> int:
    depth = 0
    for place in range(at, len(words)):
        depth += (words[place][0] in "([{") - (words[place][0] in ")]}")
        if depth == 0:
            return place
    return len(words) - 1


def _is_for_gpu(words: Sequence[str], on_gpu: set[str]) -> bool:
    head = list(words)
    body = next((i for i, word in enumerate(head) if word == "{"), len(head))
    head = head[:body]
    if head[:2] == ["extern", "template"]:  # whose instance is elsewhere: the entry makes its own
        return False
    if head[:1] == ["template"]:
        depth = 0
        for place, word in enumerate(head):
            depth += (word == "<") - (word == ">")
            if depth == 0 and place:
                head = head[place + 1 :]
                break
    if on_gpu & set(head):
        return True
    if head[:1] and head[0] in _TYPES:
        return not _HOST_NAMES & set(head)
    is_number = not {"(", "vector", "string", "char"} & set(head)
    return "const" in head and "=" in words and is_number


# ---- shared arrays


def _with_shared(code: str) -> str:
    """Declarations of shared arrays as references to memory of the emulator's."""
    depths = _depths(code)
    renamed: dict[str, tuple[int, str]] = {}
    at = 0
    while found := _SHARED.search(code, at):
        begin = max(code.rfind(mark, 0, found.start()) for mark in ";{}") + 1
        while (line_end := code.find("\n", begin, found.start())) >= 0 and code[begin:line_end].strip()[
            :1
        ] in ("", "#"):
            begin = line_end + 1
        end = found.end()
        while end < len(code) and code[end] != ";":
            end = balanced_end(code, end) if code[end] in "([{" else end + 1
        declaration = code[begin:end]
        in_macro = re.match(r"\s*#", code[code.rfind("\n", 0, found.start()) + 1 : found.start()])
        is_outside = depths[found.start()] == 0
        if in_macro:
            at = found.end()
            continue
        made, names = _declarations_of_text(declaration, _line(code, found.start()), is_outside)
        code = code[:begin] + made + _newlines(declaration) + code[end:]
        depths = _depths(code)
        at = begin + len(made)
        for name, words in names.items():
            renamed[name] = (at, words)
    for name, (place, words) in renamed.items():
        code = code[:place] + re.sub(rf"(?<![\w.>]){name}\b", words.replace("\\", r"\\"), code[place:])
    return code


def _depths(code: str) -> list[int]:
    """How many braces are open at each place, but for those of namespaces and of extern "C"."""
    bare = _DIRECTIVE.sub(lambda each: " " * len(each[0]), code)
    depth, depths, opened = 0, [], []
    for at, letter in enumerate(bare):
        if letter == "{":
            outer = re.search(r'(namespace(\s+[\w:]+)?|extern\s*"C")\s*$', bare[max(0, at - 80) : at])
            opened.append(outer is None)
            depth += outer is None
        elif letter == "}" and opened:
            depth -= opened.pop()
        depths.append(depth)
    return depths


_OWN_KEY = "[]() -> const void* { static char key; return &key; }()"  # of each instance of a template
_ALIGNED = re.compile(
    r"(?:__align__|alignas)\s*\((?:[^()]|\([^()]*\))*\)|__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)"
)


def _declarations_of_text(declaration: str, line: int, is_outside: bool) -> tuple[str, dict[str, str]]:
    """C++ for one declaration, and what stands for its names further down where it cannot be a reference."""
    text = " ".join(_ALIGNED.sub(" ", declaration).replace("\\\n", " ").split())
    is_dynamic = re.search(r"\bextern\b", text) is not None
    text = re.sub(r"\b(?:__shared__|extern|static)\b", " ", text).strip()
    first, *others = parts_of(text, ",")
    found = re.match(r"(.*[\s>*&])(\w+)\s*((?:\[.*\])*)\s*(?:=.*)?$", first, re.DOTALL)
    if found is None:
        return declaration, {}
    kind = found[1].strip()
    made, names = [], {}
    base = kind.rstrip("*& ")
    for declarator in [f"{kind[len(base) :]}{found[2]}{found[3]}", *others]:
        part = re.match(r"\s*([*\s]*)(\w+)\s*((?:\[.*\])*)", declarator, re.DOTALL)
        if part is None:
            continue
        stars, name, sides = part[1].strip(), part[2], part[3]
        if is_dynamic:
            rest = re.sub(r"^\[\s*\]", "", sides)
            if is_outside:
                names[name] = f"(::efemu::dynamic_array<{base}{stars}>())"
            elif rest:
                rows = f"({base}{stars} (*){rest})"
                made.append(f"{base}{stars} (*const {name}){rest} = {rows}::efemu::dynamic_shared();")
            else:
                made.append(f"{base}{stars}* const {name} = ({base}{stars}*)::efemu::dynamic_shared();")
            continue
        where = f'::efemu::shared_array({_OWN_KEY}, sizeof({base}{stars}{sides}), "{name}", {line})'
        if is_outside:
            made.append(f"static constexpr char efemu_key_{name} = 0;")
            outer = where.replace(
                "[]() -> const void* { static char key; return &key; }()", f"&efemu_key_{name}"
            )
            names[name] = f"(*({base}{stars} (*){sides}){outer})"
        else:
            made.append(f"{base}{stars} (&{name}){sides} = *({base}{stars} (*){sides}){where};")
    return " ".join(made).removesuffix(";"), names


# ---- inline PTX


def _without_asm(code: str) -> tuple[str, list[Refusal]]:
    unknown, at = [], 0
    while found := _ASM.search(code, at):
        end = balanced_end(code, found.end() - 1)
        inside = code[found.end() : end - 1]
        try:
            made = calls_for(inside)
        except UnknownPtxError as error:
            unknown.append(Refusal(f"inline PTX: {error}", _line(code, found.start()), INSTEAD))
            made = f'::efemu::stop_kernel("gpu-only", "inline PTX: {error}", __LINE__)'
        made += _newlines(code[found.start() : end])
        code = code[: found.start()] + made + code[end:]
        at = found.start() + len(made)
    return code, unknown


_HEADERS = re.compile(
    r"<(?:cuda_(?:fp16|bf16|fp8|fp6|fp4|pipeline|pipeline_primitives|awbarrier)\.h|mma\.h|math_constants\.h|"
    r"cooperative_groups\.h|cooperative_groups/\w+\.h|cuda/(?:std/)?\w+|type_traits|limits)>"
)
_ANY_INCLUDE = re.compile(
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
    spliced = len(_ANY_INCLUDE.findall(code.replace("\\\n", ""))) != len(_ANY_INCLUDE.findall(code))
    if spliced:
        code = re.sub(r"\\\n", lambda _: " \n", code)
    return _ANY_INCLUDE.sub(_kept_include, code)


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
