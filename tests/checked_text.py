"""A kernel's text in a file of its own, as `evoflash check` sees it."""

from pathlib import Path

from evoflash.app.check import subject as check_subject
from evoflash.app.check.runs import CheckReport, check_kernel


def checked_text(folder: Path, text: str, *, runs: int = 2, name: str = "kernel") -> CheckReport:
    path = folder / f"{name}.cu"
    path.write_text(text)
    (subject,) = check_subject.of_file(path, problem=None, gpu=None)
    return check_kernel(subject, runs=runs, seed=1)


def comments(found: CheckReport, severity: str) -> dict[str, str]:
    """The comment on the line of each finding, by its kind."""
    lines = found.subject.shown.splitlines()
    chosen = (each for each in found.findings if each.severity == severity)
    return {each.kind: lines[each.line - 1].partition("//")[2].strip() for each in chosen}
