"""Says an answer in the forms that frameworks of 2026 read from their evaluators. Judges nothing.

openevolve   a table of numbers, `combined_score` first (OpenEvolve 0.4)
shinka       metrics.json and correct.json in a folder (ShinkaEvolve 0.0.7)
kernelbench  KernelExecResult (KernelBench v0.1)
sol          a Trace as a line of JSON (SOL-ExecBench, flashinfer-bench)
gpumode      lines `key: value` (KernelBot's POPCORN_FD)
"""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evoflash.app.judge.answer import KernelAnswer
from evoflash.written_files import make_folder, write_bytes

_UNKNOWN_RUNTIME = -1.0  # KernelBench's word for no time
_SOL_STATUS = {
    "correct": "PASSED",
    "incorrect": "INCORRECT_NUMERICAL",
    "compile_error": "COMPILE_ERROR",
    "runtime_error": "RUNTIME_ERROR",
    "timeout": "TIMEOUT",
    "refused": "RUNTIME_ERROR",
    "hack": "REWARD_HACK",
}


def openevolve(answer: KernelAnswer) -> dict[str, float]:
    """Numbers alone; what is not known is left out."""
    numbers = {
        "combined_score": answer.score,
        "correct": float(answer.is_correct),
        "errors": float(sum(each["severity"] == "error" for each in answer.findings)),
        "checks": float(answer.checks),
        "seconds": answer.seconds,
    }
    if answer.timing:
        numbers |= {"median_us": answer.timing.median_us, "ratio": answer.timing.ratio}
    return numbers


def shinka(answer: KernelAnswer) -> dict[str, dict[str, Any]]:
    """By file name: what ShinkaEvolve reads in its results folder."""
    metrics = {
        "combined_score": answer.score,
        "public": openevolve(answer),
        "private": {"seed": answer.seed, "worst": answer.worst},
        "extra_data": {"status": answer.status, "rung": answer.rung, "basis": answer.basis},
        "text_feedback": answer.text_feedback,
    }
    error = None if answer.is_correct else f"{answer.status}: {answer.reason}"
    return {"metrics.json": metrics, "correct.json": {"correct": answer.is_correct, "error": error}}


def kernelbench(answer: KernelAnswer) -> dict[str, Any]:
    """KernelExecResult's fields; a time that is not known is -1."""
    timed = answer.timing
    stats = {"median": timed.median_us, "num_trials": timed.samples} if timed else {}
    return {
        "compiled": answer.status not in ("compile_error", "refused"),
        "correctness": answer.is_correct,
        "metadata": {"status": answer.status, "reason": answer.reason, "hardware": answer.gpu},
        "runtime": timed.median_us if timed else _UNKNOWN_RUNTIME,
        "runtime_stats": stats,
        "ref_runtime": timed.baseline_us if timed else _UNKNOWN_RUNTIME,
        "ref_runtime_stats": {"median": timed.baseline_us} if timed else {},
    }


def sol(answer: KernelAnswer) -> dict[str, Any]:
    """A Trace. `performance` of a passed one is null where nothing was timed."""
    timed, worst = answer.timing, answer.worst or {}
    status = _SOL_STATUS[answer.status]
    is_judged = status in ("PASSED", "INCORRECT_NUMERICAL")
    performance = timed and {
        "latency_ms": timed.median_us / 1000,
        "reference_latency_ms": timed.baseline_us / 1000,
        "speedup_factor": timed.ratio,
    }
    return {
        "definition": answer.problem,
        "workload": {"uuid": answer.sha256[:32], "axes": {}, "inputs": {}},
        "solution": answer.file,
        "evaluation": {
            "status": status,
            "environment": {"hardware": answer.gpu or "cpu emulator", "libs": {}},
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "log": answer.text_feedback,
            "correctness": {
                "max_relative_error": worst.get("rel_l2"),
                "max_absolute_error": None,
                "extra": {"rel_l2_of": worst.get("shape")},
            }
            if is_judged
            else None,
            "performance": performance if status == "PASSED" else None,
        },
    }


def gpumode(answer: KernelAnswer) -> str:
    """One test that stands for all of the checks; and, where there is a time, one benchmark."""
    word = "pass" if answer.is_correct else "fail"
    lines = ["test-count: 1", f"test.0.spec: {answer.problem}", f"test.0.status: {word}"]
    if not answer.is_correct:
        lines.append(f"test.0.error: {answer.status}: {answer.reason}")
    if answer.timing:
        lines += [
            "benchmark-count: 1",
            f"benchmark.0.spec: {answer.problem}",
            f"benchmark.0.runs: {answer.timing.samples}",
            f"benchmark.0.mean: {answer.timing.median_us * 1000}",
        ]
    return "\n".join([*lines, f"check: {word}"])


def _as_json(form: Callable[[KernelAnswer], Mapping[str, Any]]) -> Callable[[KernelAnswer], str]:
    return lambda answer: json.dumps(form(answer))


FORMS: Mapping[str, Callable[[KernelAnswer], str]] = {
    "openevolve": _as_json(openevolve),
    "shinka": _as_json(shinka),
    "kernelbench": _as_json(kernelbench),
    "sol": _as_json(sol),
    "gpumode": gpumode,
}


def write_shinka(answer: KernelAnswer, folder: Path) -> None:
    """Both files, each put in place whole."""
    make_folder(folder)
    for name, content in shinka(answer).items():
        write_bytes(folder / name, (json.dumps(content, indent=2) + "\n").encode())
