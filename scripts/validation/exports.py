"""Exported files as programs of their own on the GPU here: each is built by nvcc, checks itself and is timed.

    python -m scripts.validation.exports

One genome of every family and those that call differently: split keys, clusters, handed-out pieces. Exits
with 1 where nvcc warns or a program finds itself wrong; the figures are each program's own, not taken in
turns.
"""

import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.kernels.standalone import export_values, genome_of, reproducing_command
from evoflash.specs import GpuSpec

# An even shape, a row alone, heads with a ratio of 4 and rows that see nothing; all are compiled alike.
PROBLEM = "+".join(
    f"{shape},d=64,causal"
    for shape in (
        "b=2,h=32,hkv=8,sq=1024,skv=1024",
        "b=3,h=12,hkv=3,sq=1,skv=1000",
        "b=1,h=4,hkv=1,sq=130,skv=65",
    )
)


@dataclass(frozen=True, slots=True)
class Case:
    """A genome to export."""

    name: str
    family: str
    values: tuple[str, ...] = ()  # "param=value"


CASES = (
    Case("simt", "flash_simt"),
    Case("wmma", "flash_wmma"),
    Case("mma", "flash_mma", ("warps=4", "block_n=64")),
    Case("mma_split", "flash_mma", ("warps=4", "block_n=64", "kv_splits=4")),
    Case("direct", "flash_direct"),
    Case("cluster", "flash_cluster"),
    Case("wgmma_multicast", "flash_wgmma", ("cluster=2",)),
    Case("wgmma_packed_split", "flash_wgmma", ("kv_splits=4", "pack_gqa=on")),
    Case("wgmma_dynamic", "flash_wgmma", ("schedule=dynamic", "consumers=2")),
)


@dataclass(frozen=True, slots=True)
class Built:
    """What nvcc made of a case, and said."""

    command: str  # that exports it
    compiler: str  # its command
    said: str
    is_clean: bool  # without an error or a warning
    program: Path  # there unless nvcc failed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    built: Built
    said: str  # by nvcc and by the program
    is_right: bool


def build(case: Case, gpu: GpuSpec, folder: Path, *, problem: str = PROBLEM) -> Built:
    """Exports and compiles a case in the folder, which takes a core for seconds; UsageError without nvcc."""
    if not shutil.which("nvcc"):
        raise UsageError("nvcc is not on the PATH: install CUDA's compiler, 12.5 or later.")
    text = export_values(case.family, list(case.values), problem=problem, gpu=gpu.name, prefix=case.name)
    (folder / f"{case.name}.cu").write_text(text, encoding="utf-8")
    arch = gpu.arch.removeprefix("sm_")
    compiler = (
        f"nvcc -std=c++17 -O2 -gencode=arch=compute_{arch},code=sm_{arch} {case.name}.cu -o {case.name}"
    )
    genome = genome_of(case.family, list(case.values), problem=problem, gpu=gpu.name)
    command = f"{reproducing_command(*genome, prefix=case.name)} -o {case.name}.cu"
    ended = _ended(compiler.split(), folder)
    said = ended.stdout + ended.stderr
    is_clean = ended.returncode == 0 and "warning" not in said
    return Built(command, compiler, said, is_clean, folder / case.name)


def run(built: Built) -> Outcome:
    """Runs what was built, where something was."""
    if not built.program.exists():
        return Outcome(built, built.said, is_right=False)
    ran = _ended([str(built.program)], built.program.parent)
    is_right = built.is_clean and ran.returncode == 0
    return Outcome(built, built.said + ran.stdout + ran.stderr, is_right)


def _ended(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def main() -> int:
    """Prints the record; 1 where a case is not right."""
    gpu = spec_of(present_gpu())
    version = _ended(["nvcc", "--version"], Path()).stdout.strip().splitlines()[-2:]
    print(f"Exported kernels as programs of their own, {gpu.name}, {datetime.now(UTC):%Y-%m-%d}.")
    print("Each checks and times itself; the figures are its own, not taken in turns with each other.")
    print(f"Compiler: {'; '.join(version)}")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            outcome = run(build(case, gpu, Path(folder)))
            built, wrong = outcome.built, wrong + (not outcome.is_right)
            print(f"\n$ {built.command}\n$ {built.compiler} && ./{case.name}\n{outcome.said}", end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
