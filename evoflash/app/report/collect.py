"""Chooses the run that a report is of and puts the report together from the database. Shows nothing."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import astuple
from datetime import UTC, datetime

from evoflash.app.insights import digest, sentences
from evoflash.app.model_credit import credit
from evoflash.app.report import candidates as outcomes
from evoflash.app.report import record
from evoflash.app.report.candidates import History, fronts
from evoflash.app.report.lineage import lineage
from evoflash.app.report.winner import kernel, rooflines, verdict
from evoflash.app.runs import closing_database, find_run, state
from evoflash.app.search.session import read_pairs
from evoflash.errors import without_passwords
from evoflash.evaluation import Baseline, Basis, Evaluation, Run
from evoflash.gpu.timing.relative import factors, in_words
from evoflash.store.database import Database
from evoflash.store.profiles import read_profile
from evoflash.store.rows import score_row
from evoflash.store.run_status import RunStatus, costs, standings
from evoflash.store.store import Store, best_in
from evoflash.version import __version__


def report(
    db: str,
    wanted: str | None,
    *,
    is_retimed: bool = False,
    is_checked: bool = False,
    price_per_hour: float | None = None,
) -> record.Report:
    """As collect(), of a run of a database by its number or name; without one the newest search."""
    with closing_database(db, read_only=True) as database:
        store = Store(database)
        run = find_run(store, wanted)
        return collect(
            database,
            store,
            run,
            is_retimed=is_retimed,
            is_checked=is_checked,
            price_per_hour=price_per_hour,
        )


def collect(
    database: Database,
    store: Store,
    run: Run,
    *,
    is_retimed: bool = False,
    is_checked: bool = False,
    price_per_hour: float | None = None,
) -> record.Report:
    """Everything that is known of the run. With `is_retimed` its winner's lineage is timed on the GPU, with
    `is_checked` the winner runs in the emulator; DeviceError where that is not possible.
    """
    history = store.history(run)
    best, baselines = best_in(history), store.baselines(run)
    insights = digest(run, history, best)
    (standing,) = standings(database, run.id)
    profile = read_profile(database, best.genome.id, run.key.problem, run.key.gpu) if best else None
    brought = credit(store, run, history)
    gpus = factors(each.environment for _, each in history if not each.duplicate_of)
    again = None
    if is_retimed and best is not None:
        from evoflash.app.report.lineage import retime

        genomes = {evaluation.genome.id: evaluation.genome for _, evaluation in history}
        hops = [genomes[step.genome_id] for step in insights.lineage]
        again = retime(hops, run.key.problem, run.key.gpu)
    return record.Report(
        format=record.FORMAT,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        made_by=__version__,
        run=_about(standing, history),
        verdict=verdict(best, history, baselines, read_pairs(run)),
        progress=outcomes.progress(run, history, _random(store, run)),
        candidates=outcomes.rows(history, best),
        effects=insights.effects,
        nogoods=insights.nogoods,
        learnt=tuple(sentences(insights)),
        lineage=lineage(insights.lineage, history, best, again),
        rooflines=rooflines(best, history, baselines, profile),
        reached=outcomes.count_by_rung(history),
        rejections=outcomes.rejections(history),
        peers=tuple(_peer(each, best) for each in baselines),
        kernel=kernel(best, is_checked=is_checked),
        fronts=fronts(history),
        cost=outcomes.took(
            run, history, standing.newest, costs(database, run.id).get(run.id), price_per_hour
        ),
        gpus=gpus,
        gpus_say=tuple(in_words(gpus)),
        language_model=brought,
        language_model_says=brought.says if brought else (),
    )


def _about(standing: RunStatus, history: History) -> record.About:
    run, own = standing.run, [each for _, each in history if not each.duplicate_of]
    key, correct = run.key, sum(each.is_correct for each in own)
    screened = sum(each.is_screened for each in own)
    return record.About(
        id=run.id,
        name=run.name,
        problem=key.problem,
        gpu=key.gpu,
        basis=str(key.basis),
        is_estimate=is_estimated(run, own),
        times=times_of(run, own),
        strategy=key.search_name,
        seed=key.seed,
        attempt=run.number,
        budget=run.budget,
        state=state(standing),
        evaluated=len(own),
        correct=correct,
        screened=screened,
        failed=len(own) - correct - screened,
        duplicates=len(history) - len(own),
        begun=run.created,
        newest=standing.newest,
        command=without_passwords(f"evoflash {shlex.join(run.argv)}" if run.argv else _repeating(run)),
        evoflash_version=run.evoflash_version,
        environment={**run.environment, **{name: text for name, text in _notes(run).items() if text}},
    )


def _notes(run: Run) -> dict[str, str]:
    """What else is known of the run, in the words that earlier releases kept in its environment."""
    start = run.start
    learns_from = [astuple(each) for each in start.learns_from]
    return {
        "archive": " ".join(start.archive),
        "learns_from_shipped": json.dumps(start.learns_from_shipped) if start.learns_from_shipped else "",
        "learns_from": json.dumps(learns_from) if learns_from else "",
        "ahead": str(start.ahead or ""),
        "machines": start.machines,
        "objective": run.objectives,
        "name": run.name,
    }


def _repeating(run: Run) -> str:
    """The command of a run that Python code made."""
    key, budget = run.key, f" --budget {run.budget}" if run.budget else ""
    problem = shlex.quote(key.problem)
    return (
        f"evoflash search --gpu {key.gpu} --problem {problem} --strategy {key.search_name} --seed {key.seed}"
        + budget
    )


def is_estimated(run: Run, evaluations: Sequence[Evaluation]) -> bool:
    """Whether its times are a model's, made here or recorded."""
    return run.key.basis is Basis.ESTIMATED or any(each.is_estimate for each in evaluations)


def times_of(run: Run, evaluations: Sequence[Evaluation]) -> str:
    """Where its times come from, in words, with the mark of an estimate."""
    own, is_estimate = evaluations, is_estimated(run, evaluations)
    models = sorted({each.model_version for each in own if each.model_version})
    estimated = f"ESTIMATED by model {', '.join(models) or 'unknown'}, not measured"
    if run.key.basis is Basis.REPLAYED:
        return "replayed from a recording" + (
            f" of times {estimated}" if is_estimate else ", not measured here"
        )
    return estimated if is_estimate else "measured"


def _random(store: Store, run: Run) -> list[record.RandomRun]:
    """Other runs that are random searches of the same; the newest ones first."""
    key, found = run.key, []
    for other in store.runs():
        same = (other.key.problem, other.key.gpu, other.key.basis) == (key.problem, key.gpu, key.basis)
        if same and other.id != run.id and other.key.search_name == outcomes.RANDOM:
            history = store.history(other)
            best = outcomes.best_so_far(history)
            evaluated = sum(not each.duplicate_of for _, each in history)
            found.append(record.RandomRun(other.id, other.key.seed, evaluated, best))
    return found


def _peer(baseline: Baseline, best: Evaluation | None) -> record.Peer:
    spread = score_row(baseline.score_us, baseline.timings)
    return record.Peer(
        name=baseline.name,
        us=baseline.score_us,
        p10_us=spread["p10_us"] if spread["n"] > 1 else None,
        p90_us=spread["p90_us"] if spread["n"] > 1 else None,
        n=spread["n"],
        protocol=spread["protocol"],
        over_best=baseline.score_us / best.score_us if best and best.score_us else None,
        versions=dict(baseline.environment),
    )
