"""A case as a job for runner.cpp: its files, and its cubin with a line table. Runs nothing."""

import difflib
import time
from pathlib import Path

from evoflash.kernels.ef_layer import nvrtc_headers
from evoflash.kernels.nvrtc import FLAGS
from scripts.sanitizer.cases import ARCH, Case, Key, Record, case, fault_of

SOURCE = "kernel.cu"  # what line tables call a case's text
_POISON = 0xFF
_VAGUE = 5  # characters of a line's text, such as "ef::", that stand in too many lines to name one
_LEGAL_ZEROS = 64  # after an ELF image: CuPy 14 cuts off a trailing zero


def job(case: Case, *, limit_s: float) -> str:
    """The text of the runner's job; files are <buffer>.in, <buffer>.out and kernel.cubin beside it."""
    lines = ["module kernel.cubin", f"limit {limit_s:g}"]
    for buffer in case.buffers:
        source = f"{buffer.name}.in" if buffer.data is not None else "-"
        target = f"{buffer.name}.out" if buffer.is_output else "-"
        lines.append(f"buffer {buffer.size_bytes} {source} {_POISON} {target}")
    for launch in case.launches:
        numbers = (*launch.grid, *launch.block, launch.smem_bytes, *launch.cluster)
        flags = (int(launch.resident), int(launch.dependent))
        lines.append(" ".join(("launch", launch.entry, *map(str, (*numbers, *flags)))))
        lines.extend(case.words)
    return "\n".join(lines) + "\n"


def write_job(key: Key, folder: Path, *, limit_s: float) -> Record:
    """Compile the case and write its job; in a worker. The record's "error" is NVRTC's, or empty."""
    made = case(key)
    cubin, log, compile_s = compiled(made.text)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.txt").write_text(job(made, limit_s=limit_s), encoding="utf-8")
    (folder / "kernel.cubin").write_bytes(cubin)
    for buffer in made.buffers:
        if buffer.data is not None:
            (folder / f"{buffer.name}.in").write_bytes(buffer.data.tobytes())
    return {
        "text": made.text,
        "fault_lines": fault_lines(key, made.text),
        "compile_s": compile_s,
        "error": "" if cubin else log[:400],
    }


def compiled(text: str) -> tuple[bytes, str, float]:
    """NVRTC's cubin with a line table (empty where it refuses), its log, and seconds."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(text, SOURCE, *nvrtc_headers(text))
    begin = time.perf_counter()
    try:
        nvrtc.compileProgram(program, [*FLAGS, "-lineinfo", f"-arch={ARCH}"])
    except nvrtc.NVRTCError:
        return b"", nvrtc.getProgramLog(program), time.perf_counter() - begin
    seconds = time.perf_counter() - begin
    return nvrtc.getCUBIN(program) + bytes(_LEGAL_ZEROS), nvrtc.getProgramLog(program), seconds


def fault_lines(key: Key, text: str) -> list[int]:
    """The fault's own lines: what the patch touched, and what the emulator's report must name."""
    fault = fault_of(key)
    if fault is None:
        return []
    lines = text.splitlines()
    parts = [part for part in (fault.expect_line, fault.expect_line2) if len(part) > _VAGUE]
    own = {number for number, line in enumerate(lines, 1) if any(part in line for part in parts)}
    before = case(key.right).text.splitlines()
    for tag, _, _, begin, end in difflib.SequenceMatcher(None, before, lines, autojunk=False).get_opcodes():
        if tag != "equal":
            own |= set(range(begin + 1, end + 1)) or {begin, begin + 1}  # of a deletion: its neighbours
    return sorted(own)
