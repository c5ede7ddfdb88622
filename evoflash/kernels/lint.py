"""Refuses what a kernel's text may not hold because the emulator would not see it, by a list of what it may.

The text is read as compilers read it (kernel_text.py). What the GPU's compiler sees and g++ does not, or the
other way round, has no place in it: macros with arguments, conditions on a compiler's own names, words that
begin with two underscores but for a few. Nor has what outlives a launch. Compiles nothing; a text that passes
may still be wrong.
"""

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from evoflash.kernels.kernel_text import INCLUDE, WORD, KernelText, kernel_text

# What stands on the line, and what to write instead.
_INSTEAD = (
    (
        r"\bprintf\b",
        "ef:: has no printf: store what you want to see with ef::stg into an argument that has `out = true`.",
    ),
    (
        r"\b__shared__\b",
        "Shared memory is named by addresses: say its bytes as `smem` in the comment, begin at "
        "ef::smem_base() (or ef::smem_static<BYTES>() for a fixed size), write with ef::sts(address, value), "
        "read with ef::lds<T>(address).",
    ),
    (r"\b__syncthreads\b", "Write ef::syncthreads(), or ef::syncthreads_or(condition) for a vote."),
    (r"\b__syncwarp\b", "Write ef::syncwarp()."),
    (
        r"\b__shfl\w*",
        "Write ef::shfl_xor, shfl_idx, shfl_up or shfl_down: all 32 lanes take part, without a mask.",
    ),
    (r"\b__(ballot|any|all|activemask)\w*", "Write ef::any_sync, all_sync or ballot_sync, without a mask."),
    (
        r"<cuda_(fp16|bf16)\.h>|\b__(half|nv_bfloat|float2half|float2bfloat|bfloat)\w*",
        "Leave CUDA's header and types out: ef::f16 and ef::bf16 are stored numbers, ef::to_f32 and "
        "ef::from_f32 turn them into floats and back, ef::pack2 makes two of them one register.",
    ),
    (r"<mma\.h>", "Leave the include out: ef::wmma_load_a, wmma_mma and their kin, or ef::mma_m16n8k16."),
    (
        r"<(cuda/)?(barrier|pipeline|cooperative_groups)|\b(cg|cooperative_groups)\b",
        "Leave the library out: ef::mbar_wait, ef::cp_async16, ef::cluster_sync and their kin.",
    ),
    (r"#\s*include", "Leave the include out: a kernel that is checked includes ef.h alone."),
    (
        r"\b(asm|__asm__|__asm)\b",
        "Inline PTX cannot run here. Write the primitive that holds the instruction: ef::ex2, lg2, rcp; "
        "ldmatrix_x4; mma_m16n8k16; cp_async16; tma_load; mbar_wait; wgmma_ss (all are in evoflash/device).",
    ),
    (
        r"\batomic\w+",
        "Write ef::atom_add, atom_max, atom_cas and their kin; in shared memory ef::atom_add_shared.",
    ),
    (r"\b__cvta_\w+", "ef:: takes addresses of shared memory as they are: begin at ef::smem_base()."),
    (r"\b(malloc|clock64|clock)\b", "There is no such call in a kernel that is checked: leave it out."),
    (r"\b__(ldg|ldcg|ldca|stcs|stcg)\b", "Write ef::ldg(pointer) and ef::stg(pointer, value)."),
    (
        r"\b(__)?(exp2?|log2?|log10|rsqrt|sqrt|tanh|fdividef|fmax|fmin|max|min)f?\b",
        "Of such functions there are ef::ex2 and ef::lg2 (to base 2), ef::rcp, ef::fmax and ef::fma.",
    ),
)

# Words that read and write memory apart from ef::, which who sees what a compiler leaves of them sees too.
_ACCESSES = re.compile(
    r"__atomic_\w+|__ATOMIC_[A-Z_]+|__builtin_mem(cpy|set|move)|mem(cpy|set|move)|const_cast"
)
GLOBAL, STATIC, FILE_SCOPE = "a device global", "a static variable", "a variable at file scope"
KEPT = (GLOBAL, STATIC, FILE_SCOPE)  # what outlives a launch
_CONSTANT = "a constant is `static constexpr`; else keep it in an argument, in shared memory or in registers"
_PLAIN = "write a constant or a function"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is refused, on which line, and what to write instead."""

    what: str
    line: int
    instead: str

    def __str__(self) -> str:
        return f"{self.what} at line {self.line} ({self.instead})"


def instead_of(text: str) -> str:
    """The ef:: way for what stands in a line or a message, "" where there is none."""
    return next((words for pattern, words in _INSTEAD if re.search(pattern, text)), "")


@lru_cache(maxsize=64)
def lint(source: str, *, sees_accesses: bool = False) -> tuple[Refusal, ...]:
    """What a kernel's text holds that it may not, the first thing of each line; empty when clean.

    `sees_accesses`: the caller sees every load and store that a compiler leaves, so that the compiler's
    atomics and copies, and writes through a cast, may stand there.
    """
    text = kernel_text(source)
    found = [
        *_in_characters(text),
        *_in_directives(text),
        *_in_words(text, sees_accesses=sees_accesses),
        *_in_casts(text, sees_accesses=sees_accesses),
        *_at_file_scope(text, sees_accesses=sees_accesses),
    ]
    lines = source.split("\n")
    first: dict[int, Refusal] = {}
    for what, at, instead in found:
        line = text.line(at)
        way = instead or instead_of(lines[line - 1]) or "use ef:: in its place"
        first.setdefault(line, Refusal(what, line, way.rstrip(".")))
    return tuple(first[line] for line in sorted(first))


_Found = tuple[str, int, str]  # what, where in the code, and what to write instead ("": by the line)


# ---- characters ----

_ODD = re.compile(
    r"(?P<digraph>%:|<%|%>|<:|:>)|(?P<trigraph>\?\?[=/'()!<>-])|(?P<backslash>\\)|(?P<paste>\#\#)"
    r"|(?P<letter>[^\n\t\r -~])|(?P<return>\r(?!\n))"
)
_ODD_WORDS = {
    "digraph": ("a digraph", "write the character that it stands for"),
    "trigraph": ("a trigraph", "write the character that it stands for"),
    "backslash": ("a backslash outside of strings", "spell names in ASCII letters"),
    "paste": ("pasted words", "write the whole word"),
    "letter": ("a character beyond ASCII", "spell names in ASCII letters"),
    "return": ("a carriage return within a line", "end lines alike"),
}


def _in_characters(text: KernelText) -> Iterator[_Found]:
    for place in text.raw_strings:
        yield "a raw string", place, "leave it out: a kernel needs no strings"
    for found in _ODD.finditer(text.code):
        what, instead = _ODD_WORDS[str(found.lastgroup)]
        yield what, found.start(), instead


# ---- words ----

_RESERVED = {
    *("__global__", "__device__", "__forceinline__", "__noinline__"),
    *("__launch_bounds__", "__align__", "__cluster_dims__", "__restrict__"),
}
_LAYER = frozenset(["EF_DEV", "EF_EXPORT_KERNEL", "EF_TMAP"])
_KINDS: tuple[tuple[str, str, str], ...] = (
    (r"asm|_asm|__asm|__asm__", "inline assembly", ""),
    (r"__shared__", "a shared array", ""),
    (r"__constant__|__managed__", GLOBAL, _CONSTANT),
    (r"__(shfl|sync|ballot|any|all|activemask|reduce|match|vote)\w*", "a CUDA intrinsic", ""),
    (r"__cvta_\w+", "an address conversion", ""),
    (
        r"atomic[A-Z]\w*|v?s?n?printf|malloc|alloca|clock|clock64|memcpy|memset|memmove|assert|cuda[A-Z]\w*"
        r"|cooperative_groups|tex[123]D\w*|surf\w+(read|write)",
        "a CUDA library call",
        "",
    ),
    (r"__attribute__|__declspec|__attribute", "an attribute", "leave it out, or write __align__(n)"),
    (r"__CUDA\w*|__NVCC\w*|__NV\w*|EF_GPU|__GNUC\w*", "a compiler's own name", "write one text for both"),
    (r"efemu\w*", "a name of the emulator", "call ef:: alone"),
    (
        r"_Pragma|_Generic|_Atomic|__pragma",
        "an extension of a compiler",
        "write #pragma unroll",
    ),
    (r"thread_local|constinit", STATIC, _CONSTANT),
    (r"goto", "a jump", "write a loop or a condition"),
    (r"new|delete|throw|try|catch|typeid|dynamic_cast", "what needs a run-time library", "leave it out"),
    (r"const_cast", "a cast that takes const away", "declare what is written without const"),
    (r"import|module", "an import", "a kernel that is checked includes ef.h alone"),
    (r"__\w*|_[A-Z]\w*", "a name of the compiler's", ""),
    (r"EF_\w+", "a name of ef.h's own", "call ef:: alone"),
)
_REFUSED = re.compile("|".join(f"(?P<k{at}>{pattern})" for at, (pattern, _, _) in enumerate(_KINDS)))
_KEYWORDS = re.compile(
    "align(as|of)|and|asm|auto|bool|break|case|catch|char|class|concept|const(_cast|eval|expr|init)?|continue"
    "|decltype|default|delete|do|double|dynamic_cast|else|enum|explicit|export|extern|false|float|for|friend"
    "|goto|if|inline|int|long|mutable|namespace|new|noexcept|not|nullptr|operator|or|private|protected|public"
    "|register|reinterpret_cast|requires|return|short|signed|sizeof|static(_assert|_cast)?|struct|switch"
    "|template|this|thread_local|throw|true|try|typedef|typeid|typename|union|unsigned|using|virtual|void"
    "|volatile|while|xor|ef|efemu|(thread|block)Idx|(block|grid)Dim"
)


def _kind_of(word: str) -> tuple[str, str] | None:
    """What a word is that may not stand in a kernel, and what to write instead."""
    if word in _RESERVED or word in _LAYER:
        return None
    found = _REFUSED.fullmatch(word)
    if found is None:
        return None
    at = next(at for at in range(len(_KINDS)) if found[f"k{at}"] is not None)
    return _KINDS[at][1:]


def _in_words(text: KernelText, *, sees_accesses: bool) -> Iterator[_Found]:
    names, macros = text.names, _macros(text)
    asked = {word for word in names if word[0].isalpha() or word[0] == "_"}
    if sees_accesses:
        asked = {word for word in asked if not _ACCESSES.fullmatch(word)}
    kinds = {word: kind for word in asked if (kind := _kind_of(word)) is not None}
    for at, word in enumerate(names):
        place, following = text.places[at], names[at + 1] if at + 1 < len(names) else ""
        if word in kinds:
            yield kinds[word][0], place, kinds[word][1]
        elif word == "#":
            yield "a # within a line", place, _PLAIN
        elif word == "[" and following == "[" and not _is_of_warnings(names, at):
            yield "an attribute", place, "leave it out, or write [[maybe_unused]]"
        elif word in _ON_DEVICE and not _is_function(names, at, macros):
            yield GLOBAL, place, _CONSTANT
        elif word == "static" and following != "constexpr" and not _is_function(names, at, macros):
            yield GLOBAL if following in _ON_DEVICE else STATIC, place, _CONSTANT
        elif word == "extern" and following != '"C"':
            yield "an extern name", place, "define it in this text"


_OF_WARNINGS = ("maybe_unused", "nodiscard", "fallthrough")  # attributes that no compiler's code depends on


def _is_of_warnings(names: Sequence[str], at: int) -> bool:
    """Whether the attribute that begins there is one of those, and nothing else stands in it."""
    return list(names[at + 3 : at + 5]) == ["]", "]"] and names[at + 2] in _OF_WARNINGS


_ON_DEVICE = ("EF_DEV", "__device__")
_SPECIFIERS = {
    *("static", "inline", "constexpr", "const", "extern", '"C"', "EF_DEV", "__device__", "__global__"),
    *("__forceinline__", "__noinline__"),
}
_WITH_NUMBERS = ("__launch_bounds__", "__align__", "alignas", "__cluster_dims__")
_AGGREGATES = ("struct", "class", "union", "enum")


def _is_function(names: Sequence[str], at: int, macros: Set[str]) -> bool:
    """Whether a definition of a function begins with the word there: specifiers, a type, a name, parameters
    and a body. Anything else may be a variable, T x(1); or T (x) {1}; for one.
    """
    found: list[str] = []
    while at < len(names) and names[at] != "(":
        if names[at] in _WITH_NUMBERS:
            at = _close(names, at + 1)
        elif names[at] in (";", "{", "}") or (names[at] in ("=", "[") and "operator" not in found):
            return False
        elif names[at] not in _SPECIFIERS:
            found.append(names[at])
        at += 1
    if "operator" in found:
        at += 2 if found[-1] == "operator" else 0
    elif len(found) < 2 or not _is_name(found[-1]) or found[-2] in ("::", *_AGGREGATES):
        return False
    at = _close(names, at) + 1
    while at < len(names) and names[at] in ("const", "noexcept"):
        at += 1
    return at < len(names) and names[at] == "{" and not macros & set(found)


def _is_name(word: str) -> bool:
    return (word[0].isalpha() or word[0] == "_") and not _KEYWORDS.fullmatch(word)


_PAIRS = {"(": ")", "{": "}", "[": "]", "<": ">"}


def _close(names: Sequence[str], at: int) -> int:
    """Where what is opened at a word is closed; the end where it is not."""
    if at >= len(names) or names[at] not in _PAIRS:
        return at
    opening, closing, depth = names[at], _PAIRS[names[at]], 0
    for place in range(at, len(names)):
        depth += (names[place] == opening) - (names[place] == closing)
        if depth == 0:
            return place
    return len(names)


def _open(names: Sequence[str], at: int) -> int:
    """Where the parenthesis that is closed at a word was opened."""
    depth = 0
    for place in range(at, -1, -1):
        depth += (names[place] == ")") - (names[place] == "(")
        if depth == 0:
            return place
    return 0


# ---- preprocessor ----

_PRAGMA = re.compile(r"#\s*pragma\s+unroll(\s+[\w ()+*/-]+)?")
_DEFINE = re.compile(r"#\s*define\s+(\w+)(?![\w(])\s*([\w\s()+*/%<>=!&|^~?:,.-]*)")
_UNDEF = re.compile(r"#\s*undef\s+(\w+)")
_IF = re.compile(r"#\s*(?:if|elif)\b(.*)")
_IFDEF = re.compile(r"#\s*(?:ifdef|ifndef)\s+(\w+)")
_END = re.compile(r"#\s*(?:else|endif)")


def _is_special(word: str) -> bool:
    is_keyword = word != "ef" and _KEYWORDS.fullmatch(word) is not None
    return is_keyword or word in _RESERVED or _kind_of(word) is not None


def _in_directives(text: KernelText) -> Iterator[_Found]:
    mine: set[str] = set()
    after_each = (*(line for line, _ in text.directives[1:]), "")
    for (line, place), after in zip(text.directives, after_each, strict=False):
        if INCLUDE.fullmatch(line) or _PRAGMA.fullmatch(line) or _END.fullmatch(line):
            continue
        if re.match(r"#\s*(include|include_next|import|embed)\b", line):
            yield "an include besides ef.h", place, ""
        elif found := _DEFINE.fullmatch(line):
            words = WORD.findall(found[2])
            if _KEYWORDS.fullmatch(found[1]) or _kind_of(found[1]) or found[1] in _LAYER:
                yield "a name with another meaning", place, "choose a name that nothing else has"
            elif bad := next(filter(_is_special, words), ""):
                yield f"a macro of '{bad}'", place, _PLAIN
            mine.add(found[1])
        elif found := _UNDEF.fullmatch(line):
            if found[1] not in mine:
                yield "an #undef of what is not defined here", place, "leave it out"
        elif found := _IF.fullmatch(line):
            names = set(re.findall(r"[A-Za-z_]\w*", found[1])) - {"defined"}
            if names - mine:
                yield f"a condition on {min(names - mine)}", place, "ask for what is defined above"
        elif (found := _IFDEF.fullmatch(line)) and not (found[1] in mine or _is_default(found[1], after)):
            yield f"a condition on {found[1]}", place, "ask for what is defined above"
        elif found is None:
            yield f"a line of the preprocessor ({line[:30]})", place, _PLAIN


_PREDEFINED = ("linux", "unix", "i386")  # by one compiler and not the other


def _is_default(name: str, following: str) -> bool:
    """Whether the next line of the preprocessor defines the name that is asked for."""
    return name not in _PREDEFINED and re.match(rf"#\s*define\s+{name}\b", following) is not None


def _macros(text: KernelText) -> frozenset[str]:
    found = (_DEFINE.match(line) for line, _ in text.directives)
    return frozenset(each[1] for each in found if each)


# ---- declarations ----


def _at_file_scope(text: KernelText, *, sees_accesses: bool) -> Iterator[_Found]:
    """All that is declared outside of functions is a type, a function of the GPU's, or a constant; a copy of
    the compiler's where its accesses are seen.
    """
    names, macros, at = text.names, _macros(text), 0
    while at < len(names):
        word, end = names[at], _end_of_statement(names, at)
        if word in (";", "}"):
            at += 1
        elif word in ("using", "typedef", "static_assert"):
            if "&" in names[max(at, end - 2) : end]:
                yield "a name for a reference", text.places[at], "write the type where it is used"
            at = end
        elif word == "template":
            at = _close(names, at + 1) + 1
        elif word == "namespace" or names[at : at + 2] == ("inline", "namespace"):
            brace = next((i for i in range(at, end) if names[i] == "{"), end)
            if brace == end or {"ef", "="} & set(names[at:brace]):
                yield "another name for a namespace", text.places[at], "use ef:: as it is"
            at = brace + 1
        elif word == "extern":
            at += 3 if names[at + 1 : at + 3] == ('"C"', "{") else 2
        elif word == "EF_EXPORT_KERNEL":
            at = _close(names, at + 1) + 1
        elif _is_declared(names, at, macros) or (sees_accesses and _is_copy(names[at:end])):
            at = end
        else:
            yield FILE_SCOPE, text.places[at], _CONSTANT
            if word in _AGGREGATES:  # its body is not the end
                end = next((i for i in range(end - 1, len(names)) if names[i] == ";"), len(names)) + 1
            at = end


def _is_copy(statement: Sequence[str]) -> bool:
    """Whether it declares one of the functions whose accesses are seen."""
    return "=" not in statement and any(
        _ACCESSES.fullmatch(name) and following == "(" for name, following in pairwise(statement)
    )


def _is_declared(names: Sequence[str], at: int, macros: Set[str]) -> bool:
    """Whether a constant, a type or a function begins there."""
    is_constant = "constexpr" in names[at : at + 2]
    if names[at] == "const":
        declared = names[at : next((i for i in range(at, len(names)) if names[i] in ("=", ";", "{")), at)]
        is_constant = "*" not in declared or declared[-2:-1] == ("const",)
    return is_constant or _is_type(names, at) or _is_function(names, at, macros)


def _is_type(names: Sequence[str], at: int) -> bool:
    """Whether a type is defined or declared there and nothing of that type."""
    if names[at] not in _AGGREGATES:
        return False
    end = at + 1
    while end < len(names) and names[end] not in ("{", ";", "(", "="):
        end = (_close(names, end + 1) if names[end] in _WITH_NUMBERS else end) + 1
    if names[end : end + 1] == ("{",):
        return names[_close(names, end) + 1 :][:1] in ((), (";",))
    return names[end : end + 1] == (";",) and end == at + 2


def _end_of_statement(names: Sequence[str], at: int) -> int:
    """Behind a declaration's semicolon, or behind its body."""
    while at < len(names):
        if names[at] == ";":
            return at + 1
        if names[at] == "{":
            at = _close(names, at)
            if names[at + 1 : at + 2] not in ((";",), (",",)):
                return at + 1
        elif names[at] in ("(", "["):
            at = _close(names, at)
        at += 1
    return len(names)


# ---- casts ----

_TO_REFERENCE = "a cast to a reference", "name what it refers to"
_TO_WRITABLE = "a cast that takes const away", "declare what is written without const"


def _in_casts(text: KernelText, *, sees_accesses: bool) -> Iterator[_Found]:
    """Casts to references, casts of pointers to const to others, and constants that are not used by value."""
    names = text.names
    read_only, numbers, arrays = _declared_const(names)
    for at, word in enumerate(names):
        place, following = text.places[at], names[at + 1] if at + 1 < len(names) else ""
        if word in ("reinterpret_cast", "static_cast"):
            end = _close(names, at + 1)
            what = _cast_complaint(names[at + 2 : end], names[end + 1 : end + 4], read_only)
        elif word in ("*", "&") and following == ")":
            what = _cast_complaint(
                names[_open(names, at + 1) + 1 : at + 1], names[at + 2 : at + 5], read_only
            )
        elif word in arrays and following != "[" and names[at - 2 : at] != ("sizeof", "("):
            what = "a constant array as a whole", "use its elements"
        elif word in numbers and names[at - 1] == "&" and names[at - 2] in _BEFORE_UNARY:
            what = "the address of a constant", "use its value"
        else:
            continue
        if what and not (sees_accesses and what == _TO_WRITABLE):
            yield what[0], place, what[1]


_BEFORE_UNARY = {*"(,={[<?:+-*!)", "return", "&&", "||"}


def _cast_complaint(to: Sequence[str], of: Sequence[str], read_only: Set[str]) -> tuple[str, str] | None:
    """What is wrong with a cast to that type, of what begins with those words."""
    if to[-1:] == ("&",):
        return _TO_REFERENCE
    name = next((word for word in of if word not in ("(", "&")), "")
    return _TO_WRITABLE if to[-1:] == ("*",) and "const" not in to and name in read_only else None


def _declared_const(names: Sequence[str]) -> tuple[set[str], set[str], set[str]]:
    """Names of pointers to const alone, of constant numbers, and of constant arrays."""
    pointers: dict[str, set[bool]] = {}
    numbers: set[str] = set()
    arrays: set[str] = set()
    for at, word in enumerate(names[:-2]):
        if word == "*" and _is_name(names[at + 1]) and names[at + 2] in (",", ")", "=", ";"):
            begin = next((i for i in range(at, -1, -1) if names[i] in ("(", ",", ";", "{", "}")), -1) + 1
            if at - begin and all(_is_type_word(each) for each in names[begin:at]):
                pointers.setdefault(names[at + 1], set()).add("const" in names[begin:at])
        elif word == "constexpr":
            end = next((i for i in range(at, len(names)) if names[i] in ("=", "{", ";", "(", "[")), at)
            (arrays if names[end] == "[" else numbers if names[end] in ("=", "{") else set()).add(
                names[end - 1]
            )
    return {name for name, kinds in pointers.items() if kinds == {True}}, numbers, arrays


_TYPE_WORDS = {
    *("const", "unsigned", "signed", "int", "float", "char", "short", "long", "double", "void", "bool"),
    *("::", "<", ">", "*", "ef"),
}


def _is_type_word(word: str) -> bool:
    return word in _TYPE_WORDS or _is_name(word)
