"""Writes the past searches that ship with evoflash, from databases of searches and from recorded spaces.

    python -m scripts.searches.ship a.db b.db --recorded scripts/searches/records/spaces/short-h200.json.gz \\
        --source "H200, session of 2026-11-24" -o evoflash/champions/h200_searches.json.gz

Searches for one problem become one, whatever they had to find; what was timed in part is left out, and so is
a family with few outcomes. Measures nothing. The file that is there is read first: its problems stay, with
the proportions that their genomes have today. So a run without databases makes a stale file new.
"""

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.app.search.transfer import FEWEST, valid_in
from evoflash.champions.past_searches import Outcomes, PastSearch, read_past_searches
from evoflash.evaluation import Basis
from evoflash.kernels.family import load_family
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.replay.kernel_tuner import read_recording
from evoflash.space import Genome, Proportions
from evoflash.specs import GpuSpec, load_gpu
from evoflash.store.store import open_store
from evoflash.strategies.gaussian_process import by_share, some_of, targets_of
from evoflash.strategies.prior import MOST_OUTCOMES
from scripts.records import command

Found = Iterator[tuple[str, Genome, float]]  # a problem, and what one of its genomes took in us


def measured(db: str) -> Found:
    """All outcomes of a database that were measured to their end."""
    with open_store(db, read_only=True) as store:
        for run in store.runs():
            if run.key.basis is not Basis.MEASURED:
                continue
            for _, each in store.history(run):
                if not each.is_censored and not each.duplicate_of:
                    us = each.learnt_us
                    yield run.key.problem, each.genome, np.inf if us is None else us


def recorded(path: Path) -> Found:
    """All outcomes of a recorded space of one of our families."""
    recording = read_recording(path)
    for genome, outcome in recording.space.outcomes.items():
        if not outcome.is_lower_bound:
            yield str(parse_problem(recording.problem)), genome, outcome.score_us or np.inf


def searches(found: Iterable[tuple[str, Genome, float]], source: str) -> Iterator[PastSearch]:
    """What is kept of each problem's outcomes; of a genome that was timed more than once, the last."""
    problems: dict[str, dict[str, dict[Genome, float]]] = {}
    for problem, genome, us in found:
        problems.setdefault(problem, {}).setdefault(genome.family, {})[genome] = us
    for problem, families in problems.items():
        kept = {family: _some(tuple(each.items())) for family, each in families.items()}
        yield PastSearch(
            problem, source, {name: each for name, each in kept.items() if len(each) >= FEWEST}, {}
        )


def _some(outcomes: Outcomes) -> Outcomes:
    targets = targets_of([us for _, us in outcomes], scale=by_share)
    return tuple(outcomes[at] for at in some_of(targets, MOST_OUTCOMES))


def as_json(search: PastSearch, gpu: GpuSpec) -> dict[str, Any]:
    """As evoflash/champions/past_searches.py reads it, with the genomes that are valid today."""
    problem, tables = parse_problem(search.problem), {}
    for name, outcomes in search.families.items():
        family = load_family(name)
        space, known = family.space(problem.compile_keys(gpu.arch), gpu), proportions_on(problem, family, gpu)
        found = [(valid_in(space, genome), us) for genome, us in outcomes]
        if valid := tuple((genome, us) for genome, us in found if genome is not None):
            tables[name] = _table(valid, known) | {"version": space.version}
    return {"problem": search.problem, "source": search.source, "families": tables}


def _table(outcomes: Outcomes, known: Proportions) -> dict[str, Any]:
    genes = sorted({gene for genome, _ in outcomes for gene, _ in genome.values})
    rows = [
        [None if us == np.inf else round(us, 3), *(genome.as_dict().get(gene) for gene in genes)]
        for genome, us in outcomes
    ]
    proportions = [[round(each, 3) for each in known.of(genome)] for genome, _ in outcomes]
    return {"genes": genes, "outcomes": rows, "proportions": proportions}


def main(arguments: Sequence[str] | None = None) -> None:
    """The file, with a line for each search."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("databases", nargs="*")
    parser.add_argument("--recorded", nargs="*", type=Path, default=[])
    parser.add_argument("--source", default="", help="where and when these were measured")
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args(arguments)
    found = [row for db in asked.databases for row in measured(db)]
    found += [row for path in asked.recorded for row in recorded(path)]
    new = {each.problem: each for each in searches(found, asked.source)}
    old = read_past_searches(asked.output) if asked.output.exists() else ()
    kept = [new.pop(each.problem, each) for each in old] + list(new.values())
    gpu = load_gpu(asked.output.name.partition("_")[0])
    lines = ",\n".join(json.dumps(as_json(each, gpu), separators=(",", ":")) for each in kept)
    text = f'{{"made_by":{json.dumps(command())},"searches":[\n{lines}\n]}}\n'
    asked.output.write_bytes(gzip.compress(text.encode(), mtime=0))
    for each in kept:
        print(each.problem, {name: len(outcomes) for name, outcomes in each.families.items()})


if __name__ == "__main__":
    main()
