"""The answer about one kernel that programs read, and the score that it earns. Judges and times nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evoflash.evaluation import Evaluation, Status
from evoflash.version import SCHEMA_VERSION, __version__

AnswerStatus = Literal["correct", "incorrect", "compile_error", "runtime_error", "timeout", "refused", "hack"]
_LINES_OF_FEEDBACK = 12

_OF_STATUS: Mapping[Status, AnswerStatus] = {
    Status.CORRECT: "correct",
    Status.UNMEASURED: "correct",
    Status.CONSTRAINTS: "refused",
    Status.COMPILE: "compile_error",
    Status.RUNTIME: "runtime_error",
    Status.TIMEOUT: "timeout",
    Status.CORRECTNESS: "incorrect",
    Status.SCREENED: "incorrect",
}


@dataclass(frozen=True, slots=True)
class AnswerTiming:
    """The kernel's time beside a baseline's, measured in turns on one GPU; a ratio is the baseline's time
    over the kernel's.
    """

    median_us: float
    p10_us: float | None
    p90_us: float | None
    samples: int
    protocol: str
    clock_mhz: int | None
    baseline: str
    baseline_us: float
    ratio: float
    ratio_ci95: tuple[float, float]
    verdict: Literal["faster", "tie", "slower"]


@dataclass(frozen=True, slots=True)
class KernelAnswer:
    """What became of a kernel: `as_dict` has every field of the schema, null where nothing is known."""

    file: str
    sha256: str
    status: AnswerStatus
    reason: str = ""  # one line
    rung: str = ""  # how far it came
    problem: str | None = None
    gpu: str | None = None
    basis: Literal["measured", "estimated", "none"] = "none"
    findings: tuple[Mapping[str, Any], ...] = ()  # as `check --json` has them
    timing: AnswerTiming | None = None
    floor_us: float | None = None
    worst: Mapping[str, Any] | None = None  # the shape with the largest error
    checks: int = 0  # outputs that were compared with something
    seconds: float = 0.0
    log_tail: str = ""
    sandbox: str = ""  # what kept it in
    seed: int | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def is_correct(self) -> bool:
        return self.status == "correct"

    @property
    def score(self) -> float:
        """0 where it is not correct; else the baseline's time over its own, bounded by the floor. A tie is
        1.0, and so is a kernel without a time: nobody is paid for noise, or for what was not measured.
        """
        if not self.is_correct:
            return 0.0
        if self.timing is None or self.timing.verdict == "tie":
            return 1.0
        most = self.timing.baseline_us / self.floor_us if self.floor_us else self.timing.ratio
        return min(self.timing.ratio, most)

    @property
    def text_feedback(self) -> str:
        """What a model that wrote the kernel should read: why it fails, line by line, with what to do."""
        lines = [f"{self.status}: {self.reason}" if self.reason else str(self.status)]
        for finding in self.findings[:_LINES_OF_FEEDBACK]:
            place = f"line {finding['line']}: " if finding.get("line") else ""
            lines.append(f"{place}{finding['severity']}[{finding['kind']}]: {finding['message']}")
            if finding.get("source"):
                lines.append(f"    {str(finding['source']).strip()}")
            lines.append(f"    help: {finding['help']}")
        if self.timing:
            timed = self.timing
            lines.append(
                f"{timed.median_us:.2f} us: {timed.verdict} against {timed.baseline}, which takes "
                f"{timed.baseline_us:.2f} us"
            )
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; docs/evaluate.md describes it."""
        timed = self.timing
        return {
            "schema_version": SCHEMA_VERSION,
            "evoflash": __version__,
            "file": self.file,
            "sha256": self.sha256,
            "problem": self.problem,
            "gpu": self.gpu,
            "basis": self.basis,
            "status": self.status,
            "rung": self.rung,
            "reason": self.reason,
            "findings": [dict(each) for each in self.findings],
            "time": timed
            and {
                "median_us": timed.median_us,
                "p10_us": timed.p10_us,
                "p90_us": timed.p90_us,
                "samples": timed.samples,
                "protocol": timed.protocol,
                "clock_mhz": timed.clock_mhz,
            },
            "baseline": timed
            and {
                "name": timed.baseline,
                "median_us": timed.baseline_us,
                "ratio": timed.ratio,
                "ratio_ci95": list(timed.ratio_ci95),
            },
            "floor_us": self.floor_us,
            "fraction_of_floor": self.floor_us / timed.median_us if timed and self.floor_us else None,
            "verdict": timed.verdict if timed else None,
            "worst": self.worst,
            "checks": self.checks,
            "seconds": round(self.seconds, 3),
            "log_tail": self.log_tail,
            "sandbox": self.sandbox or None,
            "seed": self.seed,
            "notes": list(self.notes),
            "score": self.score,
            "text_feedback": self.text_feedback,
        }


def of_evaluation(evaluation: Evaluation, *, file: str, seconds: float) -> KernelAnswer:
    """The answer about a genome that was evaluated as in a search, which has no baseline beside it."""
    worst = max(evaluation.verdicts, key=lambda verdict: verdict.rel_l2, default=None)
    return KernelAnswer(
        file=file,
        sha256=evaluation.builds[0].source_sha if evaluation.builds else "",
        status=_OF_STATUS[evaluation.status],
        reason=evaluation.reason,
        rung=str(evaluation.rung),
        problem=evaluation.problem,
        gpu=evaluation.gpu,
        basis="measured" if evaluation.basis == "measured" else "estimated",
        worst={"shape": worst.workload, "rel_l2": worst.rel_l2} if worst else None,
        checks=len(evaluation.verdicts),
        seconds=seconds,
    )


def with_new_keys(old: Mapping[str, Any], answer: KernelAnswer) -> dict[str, Any]:
    """An evaluation's JSON as it always was, and the answer's fields that it lacks."""
    return {**answer.as_dict(), **old}


def refusal(file: str, reason: str, *, seconds: float = 0.0) -> KernelAnswer:
    return KernelAnswer(file=file, sha256="", status="refused", reason=reason, seconds=seconds)
