"""Puts calls of the emulator in place of inline PTX, instruction by instruction. Runs nothing, and knows the
instructions that kernels commonly write; the others are named.
"""

import re
from collections.abc import Iterator

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_OPENING, _CLOSING = "([{", ")]}"


class UnknownPtxError(Exception):
    """An instruction that the emulator does not have; its text."""


def balanced_end(text: str, at: int) -> int:
    """Behind the bracket that closes the one at `at`, or the text's end; strings are stepped over."""
    depth = 0
    while at < len(text):
        if text[at] == '"' and (found := _LITERAL.match(text, at)):
            at = found.end()
            continue
        depth += (text[at] in _OPENING) - (text[at] in _CLOSING)
        at += 1
        if depth == 0:
            return at
    return at


def parts_of(text: str, mark: str) -> list[str]:
    """The text between the marks that stand in no bracket and no string."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        if text[at] == '"' and (found := _LITERAL.match(text, at)):
            at = found.end()
        elif text[at] in _OPENING:
            at = balanced_end(text, at)
        elif text[at] == mark:
            parts.append(text[begin:at])
            begin = at = at + 1
        else:
            at += 1
    return [*parts, text[begin:]]


def calls_for(inside: str) -> str:
    """C++ for what stands between the parentheses of an asm statement. UnknownPtxError: it has none."""
    template, *sections = parts_of(inside.replace("\\\n", " "), ":")
    operands = [
        expression
        for section in sections[:2]
        for given in parts_of(section, ",")
        if (expression := given[given.find("(") :].strip() if "(" in given else "")
    ]
    text = "".join(_LITERAL.findall(template))
    text = re.sub(r"\\[nrtv]", "\n", text)
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return "do { " + " ".join(_statements(text, operands)) + " } while (0)"


def _statements(text: str, operands: list[str]) -> Iterator[str]:
    for raw in parts_of(re.sub(r"(^|;)\s*[{}]|[{}]\s*$", r"\1", text.strip()), ";"):
        for statement in re.split(r"^\s*[{}]", raw.strip()):
            if words := statement.strip():
                yield _statement(words, operands)


_COMPARES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _statement(text: str, operands: list[str]) -> str:
    guard = re.match(r"@(!?)\s*([%\w]+)\s+", text)
    if guard:
        return (
            f"if ({guard[1]}{_value(guard[2], operands)}) {{ {_statement(text[guard.end() :], operands)} }}"
        )
    if found := re.match(r"\.reg\s*\.(\w+)\s+(.*)", text, re.DOTALL):
        kind = {"pred": "bool", "b64": "unsigned long long", "u64": "unsigned long long"}.get(
            found[1], "unsigned"
        )
        return " ".join(f"{kind} {_name(each)};" for each in found[2].split(","))
    opcode, _, rest = text.partition(" ")
    given = [each.strip() for each in parts_of(rest, ",")] if rest.strip() else []
    lists = [
        [_value(each, operands) for each in value.strip("{} ").split(",")]
        if value.startswith("{")
        else [_value(value, operands)]
        for value in given
    ]
    made = _instruction(opcode, lists)
    if made is None:
        raise UnknownPtxError(opcode)
    return made


def _name(word: str) -> str:
    return "efp_" + re.sub(r"\W", "_", word.strip().strip("%"))


_SPECIAL = {
    "%laneid": "::efemu::lane_number()",
    "%tid.x": "threadIdx.x",
    "%ctaid.x": "blockIdx.x",
}


def _value(word: str, operands: list[str]) -> str:
    """An operand of PTX as C++; an address without its brackets."""
    word = word.strip().removeprefix("[").removesuffix("]").strip()
    place, plus, offset = word.partition("+")
    if plus:
        return f"({_value(place, operands)} + {offset.strip()})"
    word = word.replace("%%", "%")
    if found := re.fullmatch(r"%(\d+)", word):
        if int(found[1]) >= len(operands):
            raise UnknownPtxError(f"operand {word}")
        return operands[int(found[1])]
    if word in _SPECIAL:
        return _SPECIAL[word]
    if found := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", word):
        return f"::efemu::float_of(0x{found[1]}u)"
    if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)[uU]?", word):
        return word
    return "0" if word == "_" else _name(word)


_P = "::efemu_ptx::"
_FLOATS = {
    "ex2": "exp2f({})",
    "lg2": "log2f({})",
    "rcp": "(1.0f / {})",
    "rsqrt": "(1.0f / sqrtf({}))",
    "sqrt": "sqrtf({})",
    "tanh": "tanhf({})",
    "sin": "sinf({})",
    "cos": "cosf({})",
    "neg": "(-{})",
    "abs": "fabsf({})",
    "add": "({} + {})",
    "sub": "({} - {})",
    "mul": "({} * {})",
    "div": "({} / {})",
    "max": "fmaxf({}, {})",
    "min": "fminf({}, {})",
    "fma": "fmaf({}, {}, {})",
}
_WIDTHS = {"8": "unsigned char", "16": "unsigned short", "32": "unsigned", "64": "unsigned long long"}


def _instruction(opcode: str, given: list[list[str]]) -> str | None:
    """C++ for one instruction; None: it is not known."""
    name, *how = opcode.split(".")
    first = [each[0] for each in given]
    flat = ", ".join
    if name in ("ldmatrix", "stmatrix") and "m8n8" in how and "b16" in how:
        count, turned = next(int(each[1]) for each in how if re.fullmatch("x[124]", each)), "trans" in how
        to, address = (given[0], first[1]) if name == "ldmatrix" else (given[1], first[0])
        verb = "load_matrices" if name == "ldmatrix" else "store_matrices"
        if len(to) != count:
            return None
        return f"{_P}{verb}({count}, {str(turned).lower()}, __LINE__, {address}, {flat(to)});"
    if name == "mma":
        return _product(opcode, given)
    if opcode.startswith("cp.async"):
        return _async_copy(opcode, first)
    if name in ("bar", "barrier") and first and ("sync" in how or "arrive" in how):
        if "arrive" in how:
            return f"::efemu::barrier_arrive({first[0]}, {first[1]}, __LINE__);"
        if len(first) == 1 and first[0] == "0":
            return "::efemu::sync_block(__LINE__);"
        return f"::efemu::barrier_sync({first[0]}, {first[1]}, __LINE__);" if len(first) == 2 else None
    if name in ("membar", "fence") and not {"proxy", "mbarrier_init"} & set(how):
        return "::efemu::fence_gpu(__LINE__);"
    if name in ("prefetch", "prefetchu", "griddepcontrol", "discard"):
        return ";"
    if opcode.startswith("cvta"):
        call = (
            f"::efemu::shared_address((const void*)({first[1]}))"
            if "shared" in opcode
            else f"(unsigned long long)({first[1]})"
        )
        return f"{first[0]} = (std::remove_reference_t<decltype({first[0]})>)({call});"
    if name == "cvt" and re.fullmatch(r"cvt\.u32\.u64", opcode):
        return f"{first[0]} = (unsigned)({first[1]});"
    if re.fullmatch(r"cvt\.rn(\.satfinite)?\.(f16x2|bf16x2)\.f32", opcode):
        kind = "bf16" if "bf16x2" in opcode else "f16"
        lo, hi = (f"(unsigned)::efemu::float_to_{kind}({each})" for each in (first[2], first[1]))
        return f"{_P}set({first[0]}, {lo} | {hi} << 16);"
    if found := re.fullmatch(r"cvt\.rn\.(f16|bf16)\.f32", opcode):
        return f"{_P}set({first[0]}, ::efemu::float_to_{found[1]}({first[1]}));"
    if found := re.fullmatch(r"cvt(?:\.rn)?\.f32\.(f16|bf16)", opcode):
        return f"{_P}set({first[0]}, ::efemu::bits_of(::efemu::{found[1]}_to_float({_P}bits({first[1]}))));"
    if name == "setp" and how[0] in _COMPARES:
        cast = "float" if how[-1] == "f32" else "long long"
        return f"{first[0]} = ({cast})({first[1]}) {_COMPARES[how[0]]} ({cast})({first[2]});"
    if name == "mov" and len(given) == 2:
        return _move(given)
    if name in ("ld", "st", "ldu"):
        return _access(name, how, given)
    if name in _FLOATS and how[-1] == "f32" and len(first) > 1:
        wanted = _FLOATS[name].count("{}")
        values = [f"::efemu::float_of({_P}bits({each}))" for each in first[1:]]
        if len(values) == wanted:
            return f"{_P}set({first[0]}, ::efemu::bits_of({_FLOATS[name].format(*values)}));"
    return None


def _product(opcode: str, given: list[list[str]]) -> str | None:
    found = re.fullmatch(r"mma\.sync\.aligned\.m16n8k(16|8)\.row\.col\.(f32|f16)\.(f16|bf16)\.\3\.\2", opcode)
    if not found or len(given) != 4:
        return None
    d, a, b, c = given

    def bits(values: list[str]) -> str:
        return "{" + ", ".join(f"{_P}bits({each})" for each in values) + "}"

    flags = (found[3] == "bf16", found[1] == "8", found[2] == "f16")
    said = ", ".join(str(each).lower() for each in flags)
    sets = " ".join(f"{_P}set({each}, efm_d[{at}]);" for at, each in enumerate(d))
    return (
        f"{{ unsigned efm_d[4]; const unsigned efm_a[4] = {bits(a)}, efm_b[2] = {bits(b)}, "
        f"efm_c[4] = {bits(c)}; {_P}multiply({said}, __LINE__, efm_d, efm_a, efm_b, efm_c); {sets} }}"
    )


def _async_copy(opcode: str, first: list[str]) -> str | None:
    if opcode == "cp.async.commit_group":
        return "::efemu::commit_copies(__LINE__);"
    if opcode in ("cp.async.wait_group", "cp.async.wait_all"):
        if opcode.endswith("all"):
            return "::efemu::commit_copies(__LINE__); ::efemu::wait_copies(0, __LINE__);"
        return f"::efemu::wait_copies({first[0]}, __LINE__);"
    if re.fullmatch(r"cp\.async\.c[ag]\.shared(::cta)?\.global(\.L2::(cache_hint|\d+B))*", opcode):
        if len(first) < 3 or "cache_hint" in opcode:
            return None
        taken = first[3] if len(first) > 3 else first[2]
        places = f"(unsigned)({first[0]}), (const void*)({first[1]})"
        return f"{_P}copy_async(__LINE__, {places}, {first[2]}, {taken});"
    return None


def _move(given: list[list[str]]) -> str | None:
    to, of = given
    if len(to) == 1 and len(of) == 1:
        return f"{_P}set({to[0]}, {_P}bits({of[0]}));"
    if len(to) == 1 and len(of) == 2:
        return f"{_P}set({to[0]}, ({_P}bits({of[0]}) & 0xffff) | {_P}bits({of[1]}) << 16);"
    if len(to) == 2 and len(of) == 1:
        return f"{_P}set({to[0]}, {_P}bits({of[0]}) & 0xffff); {_P}set({to[1]}, {_P}bits({of[0]}) >> 16);"
    return None


def _access(name: str, how: list[str], given: list[list[str]]) -> str | None:
    width = re.sub(r"^[a-z]+", "", how[-1])
    if width not in _WIDTHS or "async" in how or {"acquire", "release"} & set(how):
        return None
    registers, address = (given[0], given[1][0]) if name != "st" else (given[1], given[0][0])
    if any(each.split("::")[0] == "shared" for each in how):
        address = f"::efemu::shared_pointer((unsigned)({address}))"
    kind = _WIDTHS[width]
    count = next((int(each[1]) for each in how if re.fullmatch("v[24]", each)), 1)
    if len(registers) != count:
        return None
    size = count * int(width) // 8
    whole = {16: "uint4", 8: "uint2"}.get(size, kind) if count > 1 else kind
    if count > 1 and (width != "32" or size not in (8, 16)):
        return None
    if count == 1:
        if name == "st":
            return (
                f"{{ {kind} efv = 0; efv = ({kind}){_P}bits({registers[0]}); *({kind}*)({address}) = efv; }}"
                if width != "64"
                else None
            )
        return (
            f"{{ const {kind} efv = *(const {kind}*)({address}); {_P}set({registers[0]}, efv); }}"
            if width != "64"
            else None
        )
    fields = "xyzw"[:count]
    if name == "st":
        values = ", ".join(f"{_P}bits({each})" for each in registers)
        return f"*({whole}*)({address}) = {whole}{{{values}}};"
    sets = " ".join(f"{_P}set({each}, efv.{field});" for each, field in zip(registers, fields, strict=True))
    return f"{{ const {whole} efv = *(const {whole}*)({address}); {sets} }}"
