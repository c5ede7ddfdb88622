"""The kind "t4" is Kernel Tuner's T4 results of the search that the kernel comes from, of its family."""

import json
from pathlib import Path

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation
from evoflash.exports.exported import ExportRequest, write_text
from evoflash.kernels.family import load_family
from evoflash.replay.kernel_tuner import t4_results
from evoflash.store import run_edits
from evoflash.store.store import open_store


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the file. UsageError where the database has no search that evaluated the kernel."""
    family = load_family(exported.genome.family)
    write_text(path, json.dumps(t4_results(family.params, _evaluations(exported)), indent=1) + "\n")
    return (path,)


def _evaluations(exported: ExportRequest) -> list[Evaluation]:
    """The newest search that evaluated the kernel: its family's evaluations, each genome once."""
    known = exported.evaluation
    if known is None:
        raise UsageError(
            f"no search in the database evaluated {exported.name} for '{exported.problem}': T4 results are "
            "of a search; give its --db."
        )
    where = (known.problem, known.gpu, known.basis)
    with open_store(exported.db, read_only=True) as store:
        only = run_edits.find(store.database, exported.run) if exported.run else None
        for run in [only] if only else store.runs():
            if (run.key.problem, run.key.gpu, run.key.basis) != where or run.key.basis is Basis.REPLAYED:
                continue
            found = {evaluation.genome: evaluation for _, evaluation in store.history(run)}
            if exported.genome in found:
                return [each for each in found.values() if each.genome.family == exported.genome.family]
    raise UsageError(f"the run that evaluated {exported.name} is no longer in the database: search again.")
