"""The ef:: way for what the emulator cannot see, or g++ does not know, in a kernel; compiles nothing."""

import re

from evoflash.commands.check.findings import Finding

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
