"""The winner of a run: its time, how sure that is, and what cannot be told apart from it. Times nothing.

Which kernel wins is the store's rule (`Store.best_of`). The pairs of the final timing are noted beside the
run (search/final_pairs.py); a run of an older evoflash has none, and a model's estimate has no interval.
"""

from collections.abc import Sequence

from evoflash.commands.report.outcomes import History, seed_us
from evoflash.commands.report.record import Pair, Tie, VerdictOn
from evoflash.errors import UsageError
from evoflash.evaluation import SCORED, Baseline, Evaluation, Timing, was_timed_again
from evoflash.problem import parse_problem
from evoflash.store.rows import score_row
from evoflash.timing.pair import Comparison


def verdict(
    best: Evaluation | None,
    history: History,
    baselines: Sequence[Baseline],
    pairs: Sequence[Comparison],
) -> VerdictOn | None:
    """What is said of the winner; None where no kernel was correct. `pairs` are of the winner over others."""
    if best is None or best.score_us is None:
        return None
    us, (_, from_us) = best.score_us, seed_us(history)
    spread = score_row(us, best.timings)
    libraries = {baseline.name for baseline in baselines}
    known = tuple(_pair(each, libraries) for each in pairs if each.first == best.genome.id)
    ties, why = _ties(best, history, known)
    has_spread = spread["n"] > 1
    return VerdictOn(
        id=best.genome.id,
        family=best.genome.family,
        values=best.genome.as_dict(),
        us=us,
        p10_us=spread["p10_us"] if has_spread else None,
        p90_us=spread["p90_us"] if has_spread else None,
        n=spread["n"],
        protocol=spread["protocol"],
        is_final=was_timed_again(best),
        tflops=_tflops(best.problem, us),
        seed_us=from_us,
        over_seed=from_us / us if from_us else None,
        pairs=known,
        ties=ties,
        says=(*why, *_beside(known, baselines, best)),
    )


def _tflops(problem: str, us: float) -> float | None:
    """At the geometric means over the workloads, by the field's convention; None of what is not ours."""
    try:
        flops = [workload.reported_flops for workload in parse_problem(problem).workloads]
    except UsageError:
        return None
    mean = 1.0
    for each in flops:
        mean *= each ** (1 / len(flops))
    return mean / us / 1e6


def _pair(found: Comparison, libraries: set[str]) -> Pair:
    return Pair(
        other=found.second,
        is_baseline=found.second in libraries,
        workload=found.workload,
        protocol=found.protocol,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        n=found.n,
        answer=found.answer,
    )


# ---- ties


def _ties(
    best: Evaluation, history: History, pairs: Sequence[Pair]
) -> tuple[tuple[Tie, ...], tuple[str, ...]]:
    """Kernels that are not clearly apart from the winner, and by what that was judged."""
    others = [each for _, each in history if _is_other(each, best)]
    ours = [pair for pair in pairs if not pair.is_baseline]
    if ours:
        ids = {pair.other for pair in ours}
        clear = {pair.other for pair in ours if pair.answer != "unclear"}
        tied = [each for each in others if each.genome.id in ids - clear]
        return _as_ties(tied), (_of_pairs(len(ids), len(tied), ours[0]),)
    if was_timed_again(best):
        tied = [each for each in others if was_timed_again(each) and _overlap(each, best)]
        alone = "No other finalist was timed in turns with it." if not tied else ""
        return _as_ties(tied), (alone or "No interval is stored; ties are finalists whose spreads overlap.",)
    tied = [each for each in others if _shown(each) == _shown(best)]
    return _as_ties(tied), (_of_digits(best, len(tied)),)


def _is_other(each: Evaluation, best: Evaluation) -> bool:
    is_own = not each.duplicate_of and each.genome.id != best.genome.id
    return is_own and each.is_correct and each.score_us is not None and not each.is_censored


def _as_ties(tied: Sequence[Evaluation]) -> tuple[Tie, ...]:
    found = [Tie(each.genome.id, each.genome.family, each.score_us or 0.0) for each in tied]
    return tuple(sorted(found, key=lambda tie: tie.us))


def _of_pairs(others: int, tied: int, pair: Pair) -> str:
    sure = f"{pair.confidence:.1%} intervals"
    clear = f"It was timed in turns with {others} other finalist{'s' if others > 1 else ''}; by {sure} "
    return clear + (f"{tied} of them cannot be told apart from it." if tied else "it is apart from all.")


def _of_digits(best: Evaluation, tied: int) -> str:
    alike = f"{tied} other kernels have" if tied > 1 else f"{'1' if tied else 'no'} other kernel has"
    if best.is_estimate:
        return f"A model's estimate has no interval; {alike} the same estimate to the four digits shown."
    return f"It was not timed again in turns with others; {alike} the same time to the four digits shown."


def _shown(each: Evaluation) -> str:
    return f"{each.score_us:.4g}"


def _overlap(one: Evaluation, other: Evaluation) -> bool:
    mine, theirs = _scored(one), _scored(other)
    if mine is None or theirs is None:
        return False
    return mine.p10_us <= theirs.p90_us and theirs.p10_us <= mine.p90_us


def _scored(each: Evaluation) -> Timing | None:
    by_protocol = {timing.protocol: timing for timing in each.timings}
    return next((by_protocol[name] for name in SCORED if name in by_protocol), None)


# ---- beside the libraries


def _beside(pairs: Sequence[Pair], baselines: Sequence[Baseline], best: Evaluation) -> tuple[str, ...]:
    """The winner against the libraries' fastest kernel."""
    if not baselines:
        return ("No library was timed in this run.",)
    rival = min(baselines, key=lambda each: each.score_us)
    ratio = rival.score_us / (best.score_us or 1.0)
    found = [_interval(pair) for pair in pairs if pair.other == rival.name]
    interval = found[0] if len(found) == 1 else ""
    return (f"The fastest library, {rival.name}, takes {ratio:.3f} times as long{interval}.",)


def _interval(pair: Pair) -> str:
    span = f"{1 / pair.high:.3f} to {1 / pair.low:.3f}"
    return f" ({pair.confidence:.1%} interval {span}; this kernel is {pair.answer})"
