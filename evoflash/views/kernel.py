"""Shows one kernel, the outcome of a search or a run's failures, as JSON or text. Changes nothing."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from evoflash.app import words as cost
from evoflash.app.words import (
    _after,
    _timing,
    export_commands,
    in_a_line,
    one_kernel_each,
    time_in_words,
    values_line,
)
from evoflash.evaluation import Basis, Build, Evaluation, Verdict
from evoflash.gpu.process.finals import conclusion
from evoflash.gpu.process.outcome import seconds_by_rung
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.kernels.standalone import reproducing_command
from evoflash.notices import is_verbose, say
from evoflash.settings import is_on
from evoflash.specs import load_gpu
from evoflash.store.store import Store
from evoflash.views.leaderboard import front_in_words, with_genes

if TYPE_CHECKING:
    from evoflash.app.evaluate import EvaluationResult
    from evoflash.app.search.session import RunResult


def as_json(evaluations: list[Evaluation]) -> str:
    """Everything known, a list of objects."""
    return json.dumps([_as_dict(evaluation) for evaluation in evaluations], indent=2)


def describe(evaluations: list[Evaluation]) -> str:
    """Everything known, one block for each evaluation."""
    is_known = len({(e.problem, e.gpu) for e in evaluations}) == 1
    return "\n\n".join(
        "\n".join([*_head(e), *_checks(e.verdicts), *_tail(e, is_known=is_known)]) for e in evaluations
    )


def brief(evaluation: Evaluation) -> str:
    """One kernel, its checks in one line."""
    return "\n".join([*_head(evaluation), describe_checks(evaluation.verdicts), *_tail(evaluation)])


def _checks(verdicts: Sequence[Verdict]) -> list[str]:
    """All checks in few words, the failed ones each; with -v every check on a line of its own."""
    if is_verbose() or not verdicts:
        return [*map(_verdict, verdicts)] or [describe_checks(verdicts)]
    if failed := [verdict for verdict in verdicts if not verdict.passed]:
        return [f"checked   {len(verdicts)} times, {len(failed)} failed", *map(_verdict, failed)]
    shapes = len({verdict.workload for verdict in verdicts})
    worst = {
        "relative L2 error": f"{max(v.rel_l2 for v in verdicts):.1e}",
        "largest error over RMS": f"{max(v.max_over_rms for v in verdicts):.1e}",
        "log-sum-exp error": f"{max(v.lse_error for v in verdicts):.1e}",
    }
    ratio = max(v.honest_ratio for v in verdicts)
    return [
        f"checked   {len(verdicts)} times on {shapes} shapes, all passed; -v shows each",
        f"          worst {', '.join(f'{name} {figure}' for name, figure in worst.items())}",
        f"          at most {ratio:.2f} times the error of a plain computation in the same precision",
    ]


def describe_result(result: "RunResult", *, as_json: bool, price_per_hour: float | None = None) -> str:
    """What a search came to: its best kernel and how it stands against baselines; JSON has its cost, too."""
    assert result.best is not None, "a search without a kernel is an error, not a report"
    comparisons = _against_baselines(result)
    if as_json:
        rows = [asdict(comparison) for comparison in comparisons]
        known = {"best": _as_dict(result.best), "spent": result.spent, "comparisons": rows}
        known |= {"validator": result.validator, "cost": cost.as_dict(result.cost, price_per_hour)}
        if result.front is not None:
            names = [each.name for each in result.front.objectives]
            known["front"] = {"objectives": names, "rows": [*map(with_genes, result.front.as_dicts())]}
        return json.dumps(known, indent=2)
    lines = [brief(result.best), *map(_against, comparisons)]
    if result.finals is not None:
        if said := conclusion(result.finals, result.best.genome.id):
            lines.append(f"finals    {said}")
        lines += [f"absent    {name}: {why}" for name, why in result.finals.absent.items()]
    if result.validator:
        lines.append(f"validator {result.validator}")
    if result.front is not None:
        front = front_in_words(result.front)
        lines += [f"{'' if at else 'front':10}{line}" for at, line in enumerate(front)]
    return "\n".join(lines)


def describe_outcome(outcome: "EvaluationResult", *, as_json_list: bool) -> str:
    """One evaluated genome as text, or as `show` prints it in JSON: a list of one object."""
    if as_json_list:
        return as_json([outcome.evaluation])
    if outcome.result.best is None:
        return brief(outcome.evaluation)
    return describe_result(outcome.result, as_json=False)


def describe_end(result: "RunResult", *, as_json: bool, price_per_hour: float | None = None) -> str:
    """What a search prints at its end: its report, and with -q one line of its best kernel; JSON is whole.

    What it took goes to stderr: the report itself is the same whenever the search is repeated.
    """
    if not as_json and (took := cost.in_words(result.cost, price_per_hour)):
        say(f"it took {took}.")
    if as_json or not is_on("quiet"):
        return describe_result(result, as_json=as_json, price_per_hour=price_per_hour)
    assert result.best is not None, "a search without a kernel is an error, not a report"
    return in_a_line(result.best)


def _against(comparison: PairedComparison) -> str:
    ratio, low, high = 1 / comparison.ratio, 1 / comparison.high, 1 / comparison.low
    sure = f"{comparison.confidence:.1%}"
    span = f"{ratio:.3f}x its speed, {sure} [{low:.3f}, {high:.3f}]: {comparison.answer}"
    return f"against   {comparison.second}, {comparison.protocol}: {span}"


def _against_baselines(result: "RunResult") -> list[PairedComparison]:
    """The winner over each baseline, from the times that were taken in turns."""
    if result.finals is None or result.best is None:
        return []
    baselines = result.finals.environment
    return [
        c for c in result.finals.comparisons if c.first == result.best.genome.id and c.second in baselines
    ]


def _as_dict(evaluation: Evaluation) -> dict[str, Any]:
    fields = asdict(evaluation)
    fields["genome"] = {"id": evaluation.genome.id, "family": evaluation.genome.family}
    fields["genome"]["values"] = evaluation.genome.as_dict()
    for build in fields["builds"]:
        del build["log"]
    return fields


def _head(evaluation: Evaluation) -> list[str]:
    lines = [
        f"kernel    {evaluation.genome.id}  {evaluation.genome.family}",
        values_line(evaluation.genome, evaluation.problem, evaluation.gpu),
        f"problem   {evaluation.problem}   on {evaluation.gpu}",
        f"status    {evaluation.status}, reached {evaluation.rung}" + _after(evaluation.reason, ": "),
        f"time      {time_in_words(evaluation)}",
    ]
    lines += [
        f"          {_timing(timing, is_estimate=evaluation.is_estimate)}" for timing in evaluation.timings
    ]
    return [*lines, *map(describe_build, evaluation.builds)]


def describe_build(build: Build) -> str:
    """What the compiler made of a kernel, in one line."""
    resources = f"{build.registers} registers, {build.spill_bytes} bytes spilled"
    remarks = build.warnings if is_verbose() else [line for line in build.warnings if "ptxas" in line]
    return f"build     {build.compile_key}: {resources}" + _after("; ".join(remarks), "; ")


def _verdict(verdict: Verdict) -> str:
    word = "passed" if verdict.passed else f"FAILED, {verdict.reason}"
    errors = f"rel L2 {verdict.rel_l2:.1e}, max/RMS {verdict.max_over_rms:.1e}, LSE {verdict.lse_error:.1e}"
    return f"checked   {verdict.workload}: {word}; {errors}, {verdict.honest_ratio:.2f} x a plain one's error"


def describe_checks(verdicts: Sequence[Verdict]) -> str:
    """What a kernel was checked on, or the first check that it failed, in one line."""
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed or not verdicts:
        return _verdict(failed[0]) if failed else "checked   not at all"
    worst = max(verdicts, key=lambda verdict: verdict.rel_l2)
    shapes = len({verdict.workload for verdict in verdicts})
    return f"checked   {shapes} shapes, all passed; worst rel L2 {worst.rel_l2:.1e} ({worst.workload})"


def _tail(evaluation: Evaluation, *, is_known: bool = True) -> list[str]:
    genome, problem, gpu = evaluation.genome, evaluation.problem, evaluation.gpu
    lines = [f"again     {line}" for line in export_commands(genome, problem, gpu, is_known=is_known)]
    if spent := seconds_by_rung(evaluation):
        lines.insert(0, f"spent     {', '.join(f'{rung} {s:.2f} s' for rung, s in spent.items())}")
    if evaluation.basis is Basis.ESTIMATED and evaluation.is_correct:
        note = "checked by the emulator on small shapes; the time is a model's, not a measurement."
        lines.insert(0, f"note      {note}")
    return lines


def command(evaluation: Evaluation) -> str:
    """The line that prints this kernel without a database, or one for each kernel of its problem."""
    spec = load_gpu(evaluation.gpu)
    parts = one_kernel_each(evaluation.problem, spec.arch)
    return "\n".join(reproducing_command(evaluation.genome, part, spec) for part in parts)


def failures(store: Store, *, as_json: bool) -> str:
    """What the newest run's candidates failed at: counts by status, rung and reason."""
    history = store.newest_history()
    failed = (e for _, e in history if not e.is_correct and not e.is_screened)
    counts = Counter((str(e.status), str(e.rung), e.reason) for e in failed)
    if as_json:
        rows = [{"status": s, "rung": r, "reason": w, "count": n} for (s, r, w), n in counts.most_common()]
        return json.dumps(rows, indent=2)
    if not counts:
        return f"{len(history)} evaluated, no failures."
    lines = [f"{n:5d}  {status} at {rung}: {reason}" for (status, rung, reason), n in counts.most_common(30)]
    return "\n".join([f"{len(history)} evaluated, {counts.total()} failed:", *lines])
