"""The kind "t4" is Kernel Tuner's T4 results of the search that the kernel comes from, of its family."""

import json
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Run
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.family import load_family
from evoflash.notices import say
from evoflash.replay.t4_results import t4_results
from evoflash.store.run_edits import find
from evoflash.store.store import Store, open_store
from evoflash.written_files import write_text


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file. UsageError where the database has no search that evaluated the kernel."""
    family = load_family(exported.genome.family)
    run, evaluations = _evaluations(exported)
    results = t4_results(family.params, evaluations, run.made_with, run=run.id)
    write_text(path, json.dumps(results, indent=1) + "\n")
    search = f"{run.key.search_name}, seed {run.key.seed}"
    say(f"{path.name} has run {run.id}: {search}, {len(evaluations)} results.")
    return (path,)


def _evaluations(exported: ExportRequest) -> tuple[Run, list[Evaluation]]:
    """A run that evaluated the kernel, and its evaluations of the family, each genome once: the run asked
    for, or the newest search; where no search did, the newest run.
    """
    known = exported.evaluation
    if known is None and exported.run is None:
        raise UsageError(
            f"no search in the database evaluated {exported.name} for '{exported.problem}': T4 results are "
            "of a search; give its --db."
        )
    with open_store(exported.db, read_only=True) as store:
        if exported.run is not None:
            runs = [find(store.database, exported.run)]
        else:
            assert known is not None
            runs = sorted(_runs_like(store, known), key=lambda run: not run.key.is_search)
        for run in runs:
            found = {evaluation.genome: evaluation for _, evaluation in store.history(run)}
            if exported.genome in found:
                return run, [each for each in found.values() if each.genome.family == exported.genome.family]
    if exported.run is not None:
        raise UsageError(f"run {exported.run} did not evaluate {exported.name}: see `evoflash runs`.")
    raise UsageError(f"the run that evaluated {exported.name} is no longer in the database: search again.")


def _runs_like(store: Store, known: Evaluation) -> list[Run]:
    where = (known.problem, known.gpu, known.basis)
    found = [run for run in store.runs() if (run.key.problem, run.key.gpu, run.key.basis) == where]
    return [run for run in found if run.key.basis is not Basis.REPLAYED]
