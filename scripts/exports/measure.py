"""Exports for PyTorch, tried where evoflash is not: numbers, kernels a call, PyTorch's door, a whole model.

    python -m scripts.exports.measure -o scripts/exports/records/torch-h200.json

Writes the archive's kernels of a causal GQA prefill, a full short workload and a decode as files of kind
"torch" (the first and the last also for bfloat16) and as one hub folder, then runs on_gpu/ on them in another
Python process with no way to import evoflash (`-I`, an empty PYTHONPATH, another working directory).
`--rehearse` does the same on the CPU with small tensors, where PyTorch computes instead of the kernels: it
tries the scripts and measures nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from evoflash.champions import champion_of
from evoflash.errors import UsageError
from evoflash.exports.exported import ExportRequest
from evoflash.exports.kinds import kind_of
from evoflash.gpu.timing.noise_floor import environment
from evoflash.kernels.standalone import valid_genome
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.records import read_record, write_record

# The workload that an export is for, and the one whose champion it is.
EXPORTS = {
    "prefill": ("gqa4k_d128,causal", "gqa4k_d128,causal"),
    "short": ("mission", "mission"),
    "decode": ("decode8k", "decode8k"),
    "prefill_bf16": ("gqa4k_d128,causal,dtype=bf16", "gqa4k_d128,causal"),
    "decode_bf16": ("decode8k,dtype=bf16", "decode8k"),
}
LIMIT_S = 400


def export_all(folder: Path, gpu: str) -> dict[str, str]:
    """One file of kind "torch" for each of EXPORTS, "prefill.py", and the folder "hub"; their workloads."""
    for name, (problem, champions) in EXPORTS.items():
        exported = _champion(problem, champions, gpu)
        kind_of("torch", name).write(exported, folder / f"{name}.py")
        if name == "short":
            kind_of("hub", name).write(exported, folder / "hub")
    return {name: str(parse_problem(problem)) for name, (problem, _) in EXPORTS.items()}


def _champion(problem: str, of: str, gpu: str) -> ExportRequest:
    spec, what = load_gpu(gpu), parse_problem(problem)
    known = champion_of(parse_problem(of), gpu)
    if known is None:
        raise UsageError(f"the archive has no kernel for '{of}' on {gpu}.")
    return ExportRequest(valid_genome(known.genome.family, known.genome.as_dict(), what, spec), what, spec)


def run(folder: Path, out: Path, *, rehearse: bool, parts: str) -> int:
    """The exit status of on_gpu/ in a Python without evoflash."""
    script = Path(__file__).resolve().parent / "on_gpu" / "run.py"
    words = [sys.executable, "-I", str(script), str(folder), str(out), "--parts", parts]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words += ["--rehearse"] if rehearse else []
    return subprocess.run(words, cwd=folder, env=kept, timeout=LIMIT_S, check=False).returncode


def main() -> int:
    """Export, run, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--parts", default="numbers,profile,model,sdpa", help="What to do, with commas.")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, found = Path(name), Path(name) / "found.json"
        workloads = export_all(folder, given.gpu)
        (folder / "workloads.json").write_text(json.dumps(workloads), encoding="utf-8")
        status = run(folder, found, rehearse=given.rehearse, parts=given.parts)
        result = read_record(found) if found.exists() else {}
    record = {"command": " ".join(["python -m scripts.exports.measure", *sys.argv[1:]]), "exports": EXPORTS}
    record |= {"evoflash": environment_of(rehearse=given.rehearse), **result}
    write_record(given.output, record)
    return status


def environment_of(*, rehearse: bool) -> dict[str, str]:
    """Of this process, which made the exports."""
    return {"rehearsal": str(rehearse), **environment()}


if __name__ == "__main__":
    raise SystemExit(main())
