"""Shows one kernel, its counters, two compared, a search's outcome or a run's failures, as text.

Changes and judges nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import ndiff

from evoflash.app.best import BestKernel
from evoflash.app.catalogue import problem_and_name
from evoflash.app.compare import ComparisonResult, ComparisonRun, PairResult
from evoflash.app.evaluate import EvaluationResult
from evoflash.app.export import export_commands
from evoflash.app.kernel_lookup import FailureCounts, KnownKernel, nearest_seed
from evoflash.app.profile import ProfiledKernel
from evoflash.app.search.session import RunResult
from evoflash.champions import Champion
from evoflash.champions.evidence import archived_kernel, known_times, percent_of
from evoflash.errors import UsageError
from evoflash.estimate_error import error_in_words
from evoflash.evaluation import JUDGED, Basis, Build, Evaluation, Run, Timing, Verdict
from evoflash.gpu.process.outcome import seconds_by_rung
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.hardware_counters import STALLS, UNITS, KernelProfile, LaunchCounters
from evoflash.notices import db_words, is_verbose, say
from evoflash.problem import has_lse, parse_problem
from evoflash.settings import is_on
from evoflash.space import Genome, Value
from evoflash.views.leaderboard import front_in_words
from evoflash.views.runs import cost_in_words

_LEAST_TERM_US = 0.05  # a term of the model that would read 0.0 is left out


def describe(kernel: KnownKernel) -> str:
    """Everything known, one block for each evaluation, and for what else there are some."""
    proposed = [f"proposed  by {origin.in_words}" for origin in kernel.origins]
    guess = next((each.bound for each in kernel.evaluations if each.bound), "")
    counted = counters_lines(kernel.counters, guess) if kernel.counters else []
    more = [*proposed, *_edits(kernel.genome), *counted]
    blocks = ["\n".join([*_head(e), *more, *_checks_of(e), *_tail(e)]) for e in kernel.evaluations]
    if not blocks and kernel.archived is not None:
        blocks = [
            "\n".join(_archived_lines(kernel.archived, "correct where it was measured, not checked here"))
        ]
    also = [f"also      evaluated with --problem {what} --gpu {gpu}" for what, gpu in kernel.others]
    return "\n\n".join([*blocks, *(["\n".join(also)] if also else [])])


def brief(evaluation: Evaluation) -> str:
    """One kernel, its checks in one line."""
    judged = _checks_of(evaluation) if JUDGED in evaluation.environment else []
    checks = judged or [describe_checks(evaluation.verdicts)]
    return "\n".join([*_head(evaluation), *checks, *_tail(evaluation)])


def _edits(genome: Genome) -> list[str]:
    """What was changed in the text of a genome, as lines that were there and that are there now."""
    if not genome.edits:
        return []
    lines = [f"edited    the text of {genome.root.id}, whose values these are:"]
    for before, after in genome.edits:
        old, new = before.splitlines(), after.splitlines()
        found = (line for line in ndiff(old, new) if line[0] in "+-")
        lines += [f"          {line}".rstrip() for line in found]
    return lines


def _checks_of(evaluation: Evaluation) -> list[str]:
    """The checks of a kernel; of an edited text what `evaluate`'s judge compared comes first."""
    judged = evaluation.environment.get(JUDGED)
    if judged and not evaluation.verdicts:
        return [f"checked   {judged}"]
    return [*([f"checked   {judged}"] if judged else []), *_checks(evaluation.verdicts)]


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
        **(
            {"log-sum-exp error": f"{max(v.lse_error for v in verdicts):.1e}"}
            if has_lse(verdicts[0].workload)
            else {}
        ),
    }
    ratio = max(v.honest_ratio for v in verdicts)
    return [
        f"checked   {len(verdicts)} times on {shapes} shapes, all passed; -v shows each",
        f"          worst {', '.join(f'{name} {figure}' for name, figure in worst.items())}",
        f"          at most {ratio:.2f} times the error of a plain computation in the same precision",
    ]


def describe_result(result: RunResult) -> str:
    """What a search came to: its best kernel and how it stands against baselines."""
    assert result.best is not None, "a search without a kernel is an error, not a report"
    lines = [brief(result.best), *map(_against, result.against_libraries)]
    lines += [f"ties      {words}" for words in result.tied]
    if result.finals is not None:
        if said := result.finals_say:
            lines.append(f"finals    {said}")
        lines += [f"absent    {name}: {why}" for name, why in result.finals.absent.items()]
    if result.counters is not None:
        lines += counters_lines(result.counters, result.best.bound)
    lines += credit_lines(result)
    if result.validator:
        lines.append(f"validator {result.validator}")
    if result.front is not None:
        front = front_in_words(result.front)
        lines += [f"{'' if at else 'front':10}{line}" for at, line in enumerate(front)]
    return "\n".join(lines)


def counters_lines(found: KernelProfile, guess: str) -> list[str]:
    """What binds a kernel by its hardware counters, beside the model's guess, and what would help."""
    model = [f"          the model guesses {guess}"] if guess else []
    return [f"counters  {found.longest.says}", *model, f"remedy    {found.longest.remedy}"]


def credit_lines(result: RunResult) -> list[str]:
    """What a language model brought, where there was one."""
    said = result.credit.says if result.credit else ()
    return [f"{'' if at else 'model':10}{words}" for at, words in enumerate(said)]


def describe_outcome(outcome: EvaluationResult, chosen: Sequence[str] = ()) -> str:
    """One evaluated genome; `chosen` are the values that were asked for, as `warps=4`."""
    is_correct = outcome.result.best is not None
    text = describe_result(outcome.result) if is_correct else brief(outcome.evaluation)
    if not chosen:
        return text
    head, rest = text.split("\n", 1)
    return f"{head}\nset       {' '.join(chosen)}; all other genes have their first value\n{rest}"


def describe_end(result: RunResult, price_per_hour: float | None = None) -> str:
    """What a search prints at its end: its report, and with -q one line of its best kernel.

    What it took goes to stderr: the report itself is the same whenever the search is repeated.
    """
    if took := cost_in_words(result.cost, price_per_hour):
        say(f"it took {took}.")
    if result.run is not None:
        say(next_steps(result.run))
    if not is_on("quiet"):
        return describe_result(result)
    assert result.best is not None, "a search without a kernel is an error, not a report"
    return in_a_line(result.best)


def next_steps(run: Run) -> str:
    """Which run it was, and the commands that one is likely to want now."""
    db, number = db_words(), run.id
    steps = [f"`evoflash report {number}{db}`", f"`evoflash best --run {number} --export kernel.cu{db}`"]
    if run.key.basis is Basis.ESTIMATED:
        steps.append(f"where an {run.key.gpu} is `evoflash remeasure{db}`")
    return f"run {number}; next {', '.join(steps)}."


def in_a_line(evaluation: Evaluation) -> str:
    """Id, family and time, with the time's mark where it was not measured."""
    return f"{evaluation.genome.id}  {evaluation.genome.family}  {evaluation.time}"


def _against(comparison: PairedComparison) -> str:
    ratio, low, high = 1 / comparison.ratio, 1 / comparison.high, 1 / comparison.low
    sure = f"{comparison.confidence:.1%}"
    span = f"{ratio:.3f}x its speed, {sure} [{low:.3f}, {high:.3f}]: {comparison.answer}"
    return f"against   {comparison.second}, {comparison.protocol}: {span}"


def values_line(genome: Genome, problem: str, gpu: str) -> str:
    """The values that the nearest seed of the family does not have; all of them with -v or without a seed."""
    mine, seed = genome.as_dict(), None if is_verbose() else nearest_seed(genome, problem, gpu)
    if seed is None:
        return f"values    {_words(mine)}"
    if genome.values == seed.values:
        return f"values    those of seed {seed.id}"
    same = set(seed.values) & set(genome.values)
    if not same:
        return f"values    {_words(mine)}"
    others = {name: value for name, value in genome.values if (name, value) not in same}
    agree = f"{len(same)} of {len(mine)} as in seed {seed.id[:8]}"
    return f"values    {_words(others or mine)} ({agree}; show -v lists all)"


def _words(values: dict[str, Value]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _after(text: str, separator: str) -> str:
    return separator + text if text else ""


def _rates(workload: str, us: float, mark: str) -> str:
    """The bandwidth first where that bounds it; nothing for a workload of another kernel's recorded space."""
    try:
        problem = parse_problem(workload)
    except UsageError:
        return ""
    moved = problem.streamed_bytes
    read = f" = {mark}{moved / us / 1e3:.0f} GB/s" if moved else ""
    return f"{read} = {mark}{problem.reported_flops / us / 1e6:.1f} TFLOPS"


def _timing(timing: Timing, *, is_estimate: bool) -> str:
    mark = "~" if is_estimate else ""
    spread = f"{_spread(timing)}, n {timing.n}" if timing.n > 1 else ""
    clock = f", {timing.sm_clock_mhz} MHz" if timing.sm_clock_mhz else ""
    largest = sorted(timing.terms.items(), key=lambda term: -term[1])
    terms = ", ".join(f"{name} {us:.1f}" for name, us in largest if us >= _LEAST_TERM_US)
    bound = " at least" if timing.censored else ""
    speed = f"{mark}{timing.median_us:.2f} us{_rates(timing.workload, timing.median_us, mark)}"
    return (
        f"{timing.protocol}:{bound} {speed}{spread}{clock}"
        + _after(terms, "; terms in us: ")
        + _after(timing.throttle, "; throttled: ")
    )


def _head(evaluation: Evaluation) -> list[str]:
    lines = [
        f"kernel    {evaluation.genome.id}  {evaluation.genome.family}",
        values_line(evaluation.genome, evaluation.problem, evaluation.gpu),
        f"problem   {problem_and_name(evaluation.problem)}   on {evaluation.gpu}",
        f"status    {evaluation.status}, reached {evaluation.rung}" + _after(evaluation.reason, ": "),
        *_times(evaluation),
    ]
    return [*lines, *map(describe_build, evaluation.builds)]


def _times(evaluation: Evaluation) -> Iterator[str]:
    """Its time; of an estimate first what is known better, and how far the model is off elsewhere."""
    known, label = None, "time"
    if evaluation.is_estimate:
        known = archived_kernel(evaluation.genome, evaluation.problem, evaluation.gpu)
    if known is not None:
        yield f"time      {known.time}"
        yield f"          {known.protocol}" + _after(known.rivals_in_words, "; ")
        label = "estimate"
    more = (
        f", {percent_of(evaluation.score_us / known.us)} than measured"
        if known and evaluation.score_us
        else ""
    )
    yield f"{label:10}{evaluation.time}{more}"
    for timing in evaluation.timings:
        yield f"          {_timing(timing, is_estimate=evaluation.is_estimate)}"
    if evaluation.basis is Basis.ESTIMATED and evaluation.score_us:
        family = evaluation.genome.family
        yield f"model     {error_in_words(evaluation.gpu, family, evaluation.model_version)}"


def describe_build(build: Build) -> str:
    """What the compiler made of a kernel, in one line."""
    resources = f"{build.registers} registers, {build.spill_bytes} bytes spilled"
    remarks = build.warnings if is_verbose() else [line for line in build.warnings if "ptxas" in line]
    return f"build     {build.compile_key}: {resources}" + _after("; ".join(remarks), "; ")


def _verdict(verdict: Verdict) -> str:
    word = "passed" if verdict.passed else f"FAILED, {verdict.reason}"
    errors = f"rel L2 {verdict.rel_l2:.1e}, max/RMS {verdict.max_over_rms:.1e}"
    if has_lse(verdict.workload):
        errors += f", LSE {verdict.lse_error:.1e}"
    return f"checked   {verdict.workload}: {word}; {errors}, {verdict.honest_ratio:.2f} x a plain one's error"


def describe_checks(verdicts: Sequence[Verdict]) -> str:
    """What a kernel was checked on, or the first check that it failed, in one line."""
    failed = [verdict for verdict in verdicts if not verdict.passed]
    if failed or not verdicts:
        return _verdict(failed[0]) if failed else "checked   not at all"
    worst = max(verdicts, key=lambda verdict: verdict.rel_l2)
    shapes = len({verdict.workload for verdict in verdicts})
    return f"checked   {shapes} shapes, all passed; worst rel L2 {worst.rel_l2:.1e} ({worst.workload})"


def _tail(evaluation: Evaluation) -> list[str]:
    genome, problem, gpu = evaluation.genome, evaluation.problem, evaluation.gpu
    lines = [f"again     {line}" for line in export_commands(genome, problem, gpu)]
    if spent := seconds_by_rung(evaluation):
        lines.insert(0, f"spent     {', '.join(f'{rung} {s:.2f} s' for rung, s in spent.items())}")
    if evaluation.basis is Basis.ESTIMATED and evaluation.is_correct:
        time = "the time is a model's, not a measurement" if evaluation.score_us else "nothing has timed it"
        lines.insert(0, f"note      checked by the emulator on small shapes; {time}.")
    return lines


def describe_failures(found: FailureCounts) -> str:
    """What a run's candidates failed at: counts by status, rung and reason."""
    model = found.credit.says if found.credit else ()
    if not found.counts:
        return "\n".join([f"{found.evaluated} evaluated, no failures.", *model])
    total = sum(n for *_, n in found.counts)
    lines = [f"{n:5d}  {status} at {rung}: {reason}" for status, rung, reason, n in found.counts[:30]]
    return "\n".join([f"{found.evaluated} evaluated, {total} failed:", *lines, *model])


def describe_best(answer: BestKernel) -> str:
    """The kernel to use, and for one of the archive where it was measured."""
    if answer.archived is None:
        return brief(answer.evaluation)
    if answer.result is None:
        return describe_archived(answer.archived, answer.evaluation, answer.estimated)
    return f"{describe_result(answer.result)}\narchive   {answer.archived.time}"


def describe_archived(known: Champion, checked: Evaluation, estimated: Evaluation | None = None) -> str:
    """A kernel of the archive that was checked here and not timed, and the database's fastest estimate."""
    more = [f"estimate  {_estimate_beside(estimated, known)}"] if estimated else []
    here = [*more, *map(describe_build, checked.builds), describe_checks(checked.verdicts)]
    return "\n".join(_archived_lines(known, "correct in the emulator, not run on a GPU here", here))


def _archived_lines(known: Champion, status: str, here: Sequence[str] = ()) -> list[str]:
    """A kernel of the archive, with what was found out here."""
    again = export_commands(known.genome, known.problem, known.gpu)
    return [
        f"kernel    {known.genome.id}  {known.genome.family}",
        values_line(known.genome, known.problem, known.gpu),
        f"problem   {problem_and_name(known.problem)}   on {known.gpu}",
        f"status    {status}",
        f"time      {known.time}",
        f"          {known.protocol}" + _after(known.rivals_in_words, "; "),
        *here,
        f"source    {known.source}",
        *(f"again     {command}" for command in again),
    ]


def _estimate_beside(estimated: Evaluation, known: Champion) -> str:
    """What the database's fastest estimate is worth beside a measured kernel."""
    if estimated.genome == known.genome:
        return (
            f"of this kernel: {known_times(known.genome, known.problem, known.gpu, [estimated]).calibration}"
        )
    return f"{estimated.genome.id} of the database is {estimated.time}; `evoflash best --no-archive` shows it"


_HOW_TIMED = {
    "cold": "replays of a graph, inputs from DRAM",
    "hot": "replays of a graph, inputs in L2",
    "cold-boost": "replays of a graph in windows of 10 ms after idling: boost clock",
    "cold-sustained": "replays of a graph back to back: under the power cap",
    "call": "one eager call at a time, the host's cost included",
}


def describe_comparison(run: ComparisonRun, outcome: ComparisonResult) -> str:
    """A paragraph for each workload and protocol; A is the first contender, B the second."""
    names = [f"{letter}  {contender.name}" for letter, contender in zip("AB", run.contenders, strict=True)]
    lines = [*names, *(line for result in outcome.results for line in _pair(result))]
    return "\n".join([*lines, *(f"note: {note}" for note in outcome.notes)])


def _pair(result: PairResult) -> list[str]:
    comparison, protocol = result.comparison, result.protocol
    return [
        "",
        f"{comparison.workload}, {protocol}: {_HOW_TIMED[protocol]}",
        *(f"  {letter}  {_pair_times(timing)}" for letter, timing in zip("AB", result.timings, strict=True)),
        f"  {_pair_answer(result)}",
    ]


def _pair_times(timing: Timing) -> str:
    clock = f", {timing.sm_clock_mhz} MHz" if timing.sm_clock_mhz else ""
    throttled = f"; {timing.throttle}" if timing.throttle else ""
    return f"{timing.median_us:.2f} us{_spread(timing)}{clock}{throttled}"


def _spread(timing: Timing) -> str:
    return "" if timing.spread_us is None else ", p10 {:.2f}, p90 {:.2f}".format(*timing.spread_us)


def _pair_answer(result: PairResult) -> str:
    comparison = result.comparison
    span = f"{comparison.ratio:.4f} [{comparison.low:.4f}, {comparison.high:.4f}] of B's time"
    sure = f"{comparison.confidence:.1%} interval, {comparison.n} blocks of pairs"
    if comparison.answer == "unclear":
        return f"unclear: A takes {span} ({sure}; up to {comparison.noise:.1%} counts as equal)"
    return f"A is {comparison.answer}: {span} ({sure})"


_MOST = 6  # stalls and opcodes that are shown; --json has all


def describe_profile(found: ProfiledKernel) -> str:
    """Each launch: what binds, what would help, how busy each unit is, waits and instructions."""
    lines = [f"kernel    {found.name}", f"problem   {found.problem}   on {found.gpu}"]
    if found.score_us:
        lines.append(f"time      {found.score_us:.2f} us measured")
    if found.guess:
        lines.append(f"model     guesses {found.guess}")
    for workload, launches in found.counters.launches.items():
        if len(found.counters.launches) > 1:
            lines += ["", f"workload  {workload}"]
        for at, launch in enumerate(launches):
            lines += ([""] if at else []) + list(_launch(launch))
    where = f"with run {found.run}" if found.run else "nowhere: no run of the database has this kernel"
    return "\n".join([*lines, "", f"stored    {where}; times under {found.counters.tool} rank nothing"])


def _launch(launch: LaunchCounters) -> Iterator[str]:
    size = f"{launch.grid:,} blocks of {launch.block} threads, {launch.registers} registers each"
    yield f"launch    {launch.kernel}: {size}"
    busy = f"SMs have blocks for {launch.active_sm:.0%} of it"
    yield f"profiled  {launch.us:.2f} us with cold caches at {launch.sm_ghz:.2f} GHz; {busy}"
    yield f"counters  {launch.says}"
    yield f"remedy    {launch.remedy}"
    yield f"units     {_list({UNITS[name]: share for name, share in launch.shares.items()})}"
    yield f"waits     {_list({STALLS.get(name, name): share for name, share in launch.stalls.items()})}"
    total = sum(launch.instructions.values())
    mix = {name: count / total for name, count in launch.instructions.items()} if total else {}
    yield f"executes  {total:,} warp instructions: {_list(mix)}"


def _list(shares: Mapping[str, float]) -> str:
    most = sorted(shares.items(), key=lambda item: -item[1])[:_MOST]
    return ", ".join(f"{name} {share:.0%}" for name, share in most) or "not read"
