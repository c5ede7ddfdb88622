"""What the tools answer, for their output schemas: the keys that a client may count on, and their units.

An answer has every key of the record's `as_dict()`; those that are not named here may change.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Rows = list[dict[str, Any]]
MaybeUs = Annotated[float | None, Field(description="Microseconds; null where there is no time.")]


class ToolAnswer(BaseModel):  # type: ignore[misc]
    """Every answer says which version of the schema it has."""

    model_config = ConfigDict(extra="allow")
    schema_version: int


class ProblemAnswer(ToolAnswer):
    """A problem."""

    problem: str = Field(description="As the database writes it.")
    operation: str
    workloads: Rows = Field(description="Each with `flops` and `bytes_moved` (bytes).")
    gpu: str | None
    floor_us: MaybeUs = None
    families: list[str] = []


class FamiliesAnswer(ToolAnswer):
    """Kernel families."""

    families: Rows = Field(description="Each with `name`, `arch`, `params` (values by gene) and `checks`.")


class CheckAnswer(ToolAnswer):
    """What a check found."""

    verdict: Literal["passed", "failed", "unjudged"]
    errors: int
    warnings: int
    checked: Rows = Field(
        description="A report a kernel, with `findings`: `line`, `kind`, `message`, `help`."
    )


class FindingAnswer(ToolAnswer):
    """A kind of finding."""

    kind: str
    severity: Literal["error", "warning"]
    meaning: str
    help: str = Field(description="What to do.")


class EvaluationAnswer(ToolAnswer):
    """What became of a kernel."""

    status: str = Field(
        description="correct, incorrect, compile_error, ...; a genome's as the database has it."
    )
    reason: str
    basis: str = Field(description="measured, estimated or none.")
    findings: Rows
    score: float = Field(
        description="Baseline's time over the kernel's; 1.0 a tie or untimed, 0.0 not correct."
    )
    text_feedback: str = Field(description="Why it fails, line by line, with what to do.")


class SearchAnswer(ToolAnswer):
    """How a search stands."""

    run: int
    state: Literal["running", "finished", "stopped"]
    evaluated: int = Field(description="Distinct kernels so far.")
    budget: int = Field(description="Distinct kernels; 0 where none was given.")
    correct: int
    best_us: MaybeUs
    best_id: str
    is_estimate: bool = Field(description="Whether best_us is a model's, not measured.")
    result: dict[str, Any] | None = Field(default=None, description="What a search of this server came to.")
    error: str | None = Field(default=None, description="What ended a search of this server.")


class BestAnswer(ToolAnswer):
    """A kernel; an archived one has `archived` figures in place of a time of this database."""


class ReportAnswer(ToolAnswer):
    """A report, as `evoflash report --json` writes it (docs/report.md)."""

    run: dict[str, Any]


class ExportAnswer(ToolAnswer):
    """What was written."""

    genome_id: str
    dry_run: bool
    files: list[str] = Field(description="Paths relative to the server's root.")


ANSWERS: Mapping[str, type[ToolAnswer]] = {
    "describe_problem": ProblemAnswer,
    "list_families": FamiliesAnswer,
    "check_kernel": CheckAnswer,
    "explain": FindingAnswer,
    "evaluate": EvaluationAnswer,
    "start_search": SearchAnswer,
    "search_status": SearchAnswer,
    "stop_search": SearchAnswer,
    "best": BestAnswer,
    "report": ReportAnswer,
    "export": ExportAnswer,
}
