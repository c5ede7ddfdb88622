"""Writes a run as an Optuna study, and serves it until Ctrl-C in optuna-dashboard. Proposes nothing.

A trial's value is its time in us, and its name says where that is from. A trial ends when its outcome was
stored, and begins when the one before it was: several are in flight, and when each began nobody notes. Params
are named family.gene, because families have genes of one name that mean different things; `family` is a
param, too. What is not proven to be right violates the constraint `rungs_missing`: so many rungs were left to
climb.
"""

import importlib.util
import os
import socket
import sqlite3
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from evoflash.app.report.collect import times_of
from evoflash.app.runs import closing_database, find_run
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation, Proposal, Run
from evoflash.extras import install
from evoflash.notices import say, working
from evoflash.space import Value
from evoflash.store.store import Store
from evoflash.written_files import check_replaceable, keep_written

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial


def check_installed() -> None:
    """UsageError, which says which extra, where optuna-dashboard is not here."""
    if importlib.util.find_spec("optuna_dashboard") is None:
        raise UsageError(
            f"optuna-dashboard is not installed: {install('dashboard')}, or only write it: --no-serve."
        )


def check_free(host: str, port: int) -> None:
    """UsageError where nobody can listen there."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"port {port} of {host} cannot be used ({why}): give another --port.") from None


def serve(study: Path, host: str, port: int) -> None:
    """Show the study in a browser until Ctrl-C."""
    from optuna_dashboard import run_server

    say(f"http://{host}:{port}/ shows the run; Ctrl-C ends it.")
    run_server(storage_of(study), host=host, port=port)


History = Sequence[tuple[Proposal, Evaluation]]
FAMILY = "family"  # the param
JOURNAL = ".log"  # how the name of a file ends that holds an Optuna journal
MISSING = "rungs_missing"  # the constraint: 0 where the kernel is correct


def write(
    path: Path,
    run: Run,
    history: History,
    *,
    said: Mapping[str, str],
    stored: Mapping[str, datetime] = MappingProxyType({}),
) -> int:
    """Write the run to a file, whole or not at all; how many trials it has. Duplicates are left out.

    SQLite, or, much sooner, an Optuna journal where the file's name ends in .log. `said` goes beside the
    study; `stored` says of a genome's id when its outcome was. UsageError where the path is a file of
    something else or somebody else, or not writable.
    """
    check_replaceable_study(path)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trials, beside = _trials(history, run, stored), path.with_name(f".new-{path.name}")
    try:
        beside.unlink(missing_ok=True)
        beside.touch()
        storage = storage_of(beside)
        study = optuna.create_study(storage=storage, study_name=name_of(run), direction="minimize")
        with warnings.catch_warnings():  # Optuna calls names of metrics an experiment
            warnings.simplefilter("ignore")
            study.set_metric_names([_metric(history)])
        for name, text in {"time": "us", "run": str(run.id), **run.made_with, **said}.items():
            study.set_user_attr(name, text)
        study.add_trials(trials)
        storage.remove_session()
        os.replace(beside, path)
        keep_written(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written ({error.strerror}): choose another path.") from None
    return len(trials)


def write_study(db: str, wanted: str | None, path: Path) -> int:
    """As write(), of a run of a database by its number or name; without one the newest search."""
    with working("writing the study"), closing_database(db, read_only=True) as database:
        store = Store(database)
        run = find_run(store, wanted)
        history = store.history(run)
        said = {"times": times_of(run, [evaluation for _, evaluation in history]), "database": database.label}
        return write(path, run, history, said=said, stored=stored_times(store, run))


def storage_of(path: Path) -> "BaseStorage":
    """What Optuna calls the file."""
    from optuna.storages import JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend

    if path.suffix == JOURNAL:
        return JournalStorage(JournalFileBackend(str(path)))
    return RDBStorage(f"sqlite:///{path}")


def name_of(run: Run) -> str:
    return f"run {run.id}: {run.key.problem} on {run.key.gpu}, {run.key.search_name} seed {run.key.seed}"


def check_replaceable_study(path: Path) -> None:
    """UsageError where a file stands there that is no study."""
    if path.exists() and not (_is_journal(path) if path.suffix == JOURNAL else _is_study(path)):
        raise UsageError(f"{path} exists and is no Optuna study: choose another file.")
    check_replaceable(path)


def _is_study(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            return ("studies",) in connection.execute("SELECT name FROM sqlite_master").fetchall()
    except sqlite3.Error:
        return False


def _is_journal(path: Path) -> bool:
    with path.open("rb") as journal:
        return b'"op_code"' in journal.read(200)


def _metric(history: History) -> str:
    """What a trial's value is called: an estimate is never without its mark."""
    is_estimate = any(evaluation.is_estimate for _, evaluation in history)
    return "~us, ESTIMATED, not measured" if is_estimate else "us"


def stored_times(store: Store, run: Run) -> dict[str, datetime]:
    """When each outcome of the run was stored, by its genome's id."""
    query = "SELECT genome_id, created FROM evaluations WHERE run_id = :run AND kind = 'candidate'"
    return {genome: datetime.fromisoformat(when) for genome, when in store.query(query, {"run": run.id})[1]}


def _trials(history: History, run: Run, stored: Mapping[str, datetime]) -> "list[FrozenTrial]":
    own = [(proposal, evaluation) for proposal, evaluation in history if not evaluation.duplicate_of]
    distributions = _distributions([evaluation for _, evaluation in own])
    trials, before = [], datetime.fromisoformat(run.created)
    for n, (proposal, evaluation) in enumerate(own, 1):
        trial = _trial(n, proposal, evaluation, distributions)
        ended = max(before, stored.get(evaluation.genome.id, before))
        trial.datetime_start, trial.datetime_complete, before = _local(before), _local(ended), ended
        trials.append(trial)
    return trials


def _local(when: datetime) -> datetime:
    """As Optuna writes moments: of this machine's zone, without saying so."""
    return when.astimezone().replace(tzinfo=None)


def _distributions(evaluations: Sequence[Evaluation]) -> "dict[str, BaseDistribution]":
    """Of each param the values that the run tried."""
    from optuna.distributions import CategoricalDistribution

    tried: defaultdict[str, set[Value]] = defaultdict(set)
    for evaluation in evaluations:
        for name, value in params(evaluation).items():
            tried[name].add(value)
    return {name: CategoricalDistribution(sorted(values, key=_order)) for name, values in tried.items()}


def _order(value: Any) -> tuple[bool, float, str]:
    is_word = isinstance(value, str)
    return is_word, 0.0 if is_word else float(value), str(value)


def params(evaluation: Evaluation) -> dict[str, Value]:
    family = evaluation.genome.family
    return {FAMILY: family} | {f"{family}.{gene}": value for gene, value in evaluation.genome.values}


def _trial(
    number: int,
    proposal: Proposal,
    evaluation: Evaluation,
    distributions: "Mapping[str, BaseDistribution]",
) -> "FrozenTrial":
    from optuna.trial import TrialState, create_trial

    mine, us = params(evaluation), evaluation.learnt_us
    return create_trial(
        state=TrialState.FAIL if us is None else TrialState.COMPLETE,
        value=None if us is None else float(f"{us:.6g}"),
        params=mine,
        distributions={name: distributions[name] for name in mine},
        user_attrs=_attributes(number, proposal, evaluation),
        constraints={MISSING: 0.0 if evaluation.is_correct else evaluation.rung.levels_missing},
    )


def _attributes(number: int, proposal: Proposal, evaluation: Evaluation) -> dict[str, Any]:
    builds = [build for build in evaluation.builds if build.ok]
    known = {
        "evaluation": number,
        "genome": evaluation.genome.id,
        "family_version": evaluation.genome.version,
        "basis": str(evaluation.basis),
        "model_version": evaluation.model_version,
        "status": str(evaluation.status),
        "rung": str(evaluation.rung),
        "reason": evaluation.reason,
        "time": evaluation.time,
        "operator": proposal.operator,
        "parents": list(proposal.parents),
        "bound": evaluation.bound,
        "registers": max((build.registers for build in builds), default=None),
        "spill_bytes": max((build.spill_bytes for build in builds), default=None),
    }
    return {name: value for name, value in known.items() if value not in (None, "", [])}
