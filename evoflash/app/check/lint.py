"""What g++, NVRTC and ptxas say about a kernel, as findings. Runs none of them.

Where the emulator cannot see something that a kernel does, or g++ does not know it, the finding names the
function of the ef:: layer that does the same.
"""

import re

from evoflash.app.check.findings import Finding, Place
from evoflash.evaluation import Build

# What outlives a launch: a result may come from an earlier one, and each emulated launch finds it fresh.
_KEPT = ("a device global", "a static variable")
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


def instead_of(said: str) -> str:
    """The ef:: way for the name that a compiler quotes in what it says, "" where there is none."""
    quoted = " ".join(re.findall(r"'([^']*)'", said))
    return next((words for pattern, words in _INSTEAD if re.search(pattern, quoted)), "")


def unseen_in(lines: list[str], unseen: tuple[tuple[str, int], ...], *, shift: int) -> tuple[Finding, ...]:
    """A finding for each (what, line); `lines` are those of the text, whose first one is number 1."""
    return tuple(_finding(what, line, lines[line - 1], shift) for what, line in unseen)


def _finding(what: str, line: int, text: str, shift: int) -> Finding:
    kind = "kept-state" if what in _KEPT else "unseen"
    instead = next((words for pattern, words in _INSTEAD if re.search(pattern, text)), "")
    return Finding(kind, what, line=line + shift, instead="" if kind == "kept-state" else instead)


_GCC = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
_GCC_FROM = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:\d+:)?\s+(?:required|recursively required) from")
_NVRTC = re.compile(r"^(?P<file>[^(\n]+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)$")
_CODE = re.compile(r"\(?\b(C7\d\d\d)\b\)?")
_SERIALIZED = re.compile(r"wgmma")
_MOST = 8  # errors of one compilation: later ones follow from the first


def from_gcc(log: str, *, file: str, shift: int = 0) -> tuple[Finding, ...]:
    """g++'s errors. `file` is the kernel's name there; one inside ef.h points at the line that led there."""
    findings, came_from = [], 0
    for text in log.splitlines():
        origin, error = _GCC_FROM.match(text), _GCC.match(text)
        if origin and _is(origin["file"], file):
            came_from = int(origin["line"])
        if not error:
            continue
        own = _is(error["file"], file)
        line = int(error["line"]) if own else came_from
        column = int(error["column"] or 0) if own else 0
        findings.append(
            Finding(
                "compile",
                error["text"],
                line=line + shift if line else 0,
                column=column if line else 0,
                instead=instead_of(error["text"]),
            )
        )
        came_from = 0
    first = log.splitlines()[0] if log else "g++ said nothing"
    return tuple(_distinct(findings)[:_MOST]) or (Finding("compile", first),)


def from_nvrtc(log: str, *, file: str, shift: int = 0) -> tuple[Finding, ...]:
    """NVRTC's errors."""
    findings = []
    for text in log.splitlines():
        error = _NVRTC.match(text)
        if error:
            line = int(error["line"]) + shift if _is(error["file"], file) else 0
            inside = "" if line else f" ({error['file']}, line {error['line']})"
            findings.append(Finding("nvrtc", error["text"] + inside, line=line))
    first = next((line for line in log.splitlines() if line.strip()), "NVRTC said nothing")
    return tuple(_distinct(findings)[:_MOST]) or (Finding("nvrtc", first.strip()),)


def from_build(build: Build, *, arch: str) -> tuple[Finding, ...]:
    """Spills, and ptxas's warnings and C75xx messages."""
    findings = []
    if build.spill_bytes:
        message = (
            f"{build.spill_bytes} bytes of spill stores and loads at {build.registers} registers ({arch})"
        )
        findings.append(Finding("spills", message))
    for warning in build.warnings:
        code = _CODE.search(warning)
        kind = "wgmma-serialized" if code and _SERIALIZED.search(warning) else "ptxas"
        text = re.sub(r"^ptxas (?:info|warning)\s*:\s*", "", warning)
        findings.append(Finding(kind, text, places=(Place(0, f"from ptxas for {arch}"),)))
    return tuple(_distinct(findings))


def _is(file: str, wanted: str) -> bool:
    return file.rpartition("/")[2] == wanted


def _distinct(findings: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(findings))
