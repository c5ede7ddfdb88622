"""What every export says of itself: who may use it, what it was checked on, how fast it was and where.

Only what the database holds is claimed; an export of a genome that was never evaluated says so.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evoflash import operation as registry
from evoflash.champions import Champion
from evoflash.evaluation import JUDGED, Basis, Build, Evaluation
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.edited_text import render_edited
from evoflash.notices import say
from evoflash.version import __version__

LICENCE = "Apache-2.0"


def claims(exported: ExportRequest) -> dict[str, Any]:
    """By the names that launch.json has."""
    is_measured = exported.evaluation is not None and exported.evaluation.basis is Basis.MEASURED
    archived = None if is_measured else exported.archived
    return {
        "problem": str(exported.problem),
        "gpu": exported.gpu.name,
        "verified": _verification(exported.evaluation, is_other=exported.is_other) | _archived_run(archived),
        "timings": [*_archived_timings(archived), *_timings(exported.evaluation)],
        "licence": f"{LICENCE}; the file and the kernel are yours",
        "evoflash": __version__,
    }


def _verification(evaluation: Evaluation | None, *, is_other: bool) -> dict[str, Any]:
    if evaluation is None:
        return {"status": "checked as other code" if is_other else "never evaluated", "checks": 0}
    worst = max((verdict.rel_l2 for verdict in evaluation.verdicts), default=None)
    return {
        "status": str(evaluation.status),
        "rung": str(evaluation.rung),
        "basis": str(evaluation.basis),
        "checks": len(evaluation.verdicts),
        "worst_rel_l2": worst,
        "environment": dict(evaluation.environment),
    }


def _archived_run(known: Champion | None) -> dict[str, Any]:
    """Where the archive's kernel was checked and measured, which is more than an emulator's word."""
    return {} if known is None else {"basis": "archived", "archived": f"{known.device}, {known.date}"}


def _timings(evaluation: Evaluation | None) -> list[dict[str, Any]]:
    if evaluation is None:
        return []
    return [
        {
            "workload": timing.workload,
            "protocol": timing.protocol,
            "basis": "estimated" if evaluation.is_estimate else str(evaluation.basis),
            "median_us": timing.median_us,
            "p10_us": timing.p10_us,
            "p90_us": timing.p90_us,
            "samples": timing.n,
            "sm_clock_mhz": timing.sm_clock_mhz,
        }
        for timing in evaluation.timings
    ]


def _archived_timings(known: Champion | None) -> list[dict[str, Any]]:
    """The time of the archive's kernel, which this machine did not measure."""
    if known is None:
        return []
    where = f"archived: measured on {known.device}, {known.date}"
    return [{"workload": known.problem, "protocol": known.protocol, "basis": where, "median_us": known.us}]


def as_checked(exported: ExportRequest, builds: Sequence[Build] = ()) -> ExportRequest:
    """What is exported, without an evaluation that was one of another text or other machine code.

    `builds` are those that leave; without them the text alone is compared, as of a .cu file. Another compiler
    makes other code of the same text, and evoflash's primitives may have changed since.
    """
    checked = exported.evaluation.builds if exported.evaluation else ()
    key = exported.compile_key
    of_arch = [build for build in checked if build.compile_key.arch == key.arch and build.ok]
    if builds:
        known, here = {each.text_sha for each in of_arch}, {each.text_sha for each in builds if each.ok}
    else:
        candidate = render_edited(exported.genome, key, exported.gpu)
        known, here = {each.source_sha for each in of_arch}, {candidate.source_sha}
    if not known - {""} or known & here:
        return exported
    what = "machine code" if builds else "text"
    say(
        f"the {what} of {exported.name} is not the one that was checked: the file claims no check and no "
        "time; `evoflash evaluate` checks it."
    )
    return replace(exported, evaluation=None, is_other=True)


# ---- in words, for people


def head_lines(exported: ExportRequest) -> tuple[str, ...]:
    """What a .cu file says at its head: what it was checked on, its times, and where these are from."""
    told = claims(exported)
    timings = told["timings"] or [{}]
    is_known = any(each.get("basis") not in (None, "estimated") for each in timings)
    times = (f"Time:        {_timing(each, is_known=is_known)}" for each in timings)
    return (f"Checked:     {_in_words(told['verified'])}", *times)


def facts(described: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The kernel of a launch.json in (label, text) pairs: what it is, what it was checked and timed on."""
    kernel, contract = described["kernel"], described["contract"]
    values = " ".join(f"{name}={value}" for name, value in kernel["values"].items())
    timings = described["timings"] or [{}]
    is_known = any(each.get("basis") not in (None, "estimated") for each in timings)
    form = registry.load(described["operation"]).launch_form
    assert form is not None, "a launch.json is of a form"
    return [
        ("kernel", f"{kernel['family']} {kernel['genome']}"),
        ("values", values),
        ("computes", form.computes(contract)),
        ("runs on", f"{', '.join(described['images'])}; made for {described['gpu']}"),
        ("verified", _in_words(described["verified"])),
        *(("timing", _timing(timing, is_known=is_known)) for timing in timings),
        ("licence", str(described["licence"])),
        ("made by", f"evoflash {described['evoflash']}: {described['command']}"),
    ]


def _in_words(given: Mapping[str, Any]) -> str:
    elsewhere = f"checked and measured on {given['archived']}, for the archive" if "archived" in given else ""
    if judged := given.get("environment", {}).get(JUDGED):
        return f"{given['status']}; {judged}"
    if not given.get("checks") and elsewhere:
        return f"not by this database; {elsewhere}"
    if given.get("status") == "checked as other code":
        return "not as this code: what was checked was compiled or written otherwise; check it before use"
    if not given.get("checks"):
        return "not by this database: check it before you trust it"
    never = ", never run on a GPU" if not elsewhere else f"; {elsewhere}"
    where = "" if given.get("basis") == "measured" else f" in the CPU emulator{never}"
    worst = given.get("worst_rel_l2")
    at_most = f", relative error at most {worst:.2g}" if worst is not None else ""
    return f"{given['status']}{where}; {given['checks']} checks{at_most}"


def _timing(given: Mapping[str, Any], *, is_known: bool) -> str:
    """`is_known`: the kernel was also measured."""
    if not given:
        return "none in this database"
    basis = str(given["basis"])
    is_estimate = basis == "estimated"
    said = ("ESTIMATED by a model" if is_known else "ESTIMATED, never measured") if is_estimate else basis
    time = f"{'~' * is_estimate}{given['median_us']:.2f} us"
    return f"{time} ({said}), {given['protocol']}, {given['workload']}"


def as_comment(pairs: Iterable[tuple[str, str]], width: int = 100) -> str:
    """As lines of a Python comment."""
    lines = []
    for label, text in pairs:
        lines += textwrap.wrap(
            text,
            width,
            initial_indent=f"# {label:9s} ",
            subsequent_indent="#           ",
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"
