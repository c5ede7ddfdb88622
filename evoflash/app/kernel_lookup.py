"""Finds the genome of an id or of its first digits, what is known of it, and what a run failed at.

Where several genomes, problems or GPUs would fit, a UsageError asks which is meant. Writes nothing.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evoflash.app.model_credit import ModelCredit, credit
from evoflash.app.runs import find_run
from evoflash.champions import Champion, champions, of_today
from evoflash.champions.evidence import archived_kernel
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation, Run
from evoflash.hardware_counters import KernelProfile
from evoflash.kernels.edited_text import render_edited
from evoflash.kernels.family import load_family
from evoflash.model_exchange import KernelOrigin
from evoflash.notices import count_of, say
from evoflash.problem import Problem, canonical, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, canonical_gpu, known_gpus, load_gpu
from evoflash.store.database import is_there
from evoflash.store.exchanges import read_origins
from evoflash.store.profiles import read_profile
from evoflash.store.store import Store, open_store


@dataclass(frozen=True, slots=True)
class OlderKernels:
    """Kernels of a version of their family that evoflash no longer writes: their CUDA was another."""

    family: str
    version: int
    installed: int
    count: int

    def in_words(self, *, are_ranked: bool) -> str:
        of_version = f"version {self.version} of {self.family}, which is now at {self.installed}"
        what = f"{count_of(self.count, 'kernel')} of {of_version}"
        if are_ranked:
            return f"Among these are {what}: they are not what evoflash writes today."
        return f"Not ranked: {what}; search again, or `evoflash leaderboard --run N` shows them."


Known = tuple[Genome, str, str]  # with the problem and the GPU that it was evaluated for


def known_genome(
    prefix: str, db: str, *, problem: str | None, gpu: str | None, run: str | None = None
) -> tuple[Genome, Problem, GpuSpec]:
    """The one genome whose id begins so, with the problem and GPU that are asked for or else its own.

    With `run` it is one that the run of this number or name evaluated. UsageError where none or several fit,
    or where problem or GPU are not said and it has several.
    """
    if not re.fullmatch(r"[0-9a-f]{1,16}", prefix):
        raise UsageError(
            f"'{prefix}' is no genome id: give its hexadecimal digits, as `evoflash leaderboard` does."
        )
    found = _stored_matches(prefix, db, run) or ([] if run else _archived_matches(prefix))
    ids = sorted({genome.id for genome, _, _ in found})
    if not ids and run is not None:
        raise UsageError(f"run {run} has no kernel whose id starts with '{prefix}': leave --run out.")
    if not ids:
        raise UsageError(
            f"no kernel's id starts with '{prefix}', neither in {db} nor in the archive: see `evoflash "
            "leaderboard`, or give --db."
        )
    if len(ids) > 1:
        raise UsageError(f"'{prefix}' could be {', '.join(ids[:6])}: give more digits.")
    wanted = canonical_gpu(gpu)
    here = [one for one in found if wanted in (None, one[2])] or found
    what = canonical(problem) or _only("problem", [one[1] for one in here], ids[0])
    where = wanted or _only(
        "gpu",
        [one[2] for one in here if problem is None or one[1] == what] or [one[2] for one in here],
        ids[0],
    )
    return _valid(here[0][0], parse_problem(what), load_gpu(where))


def stored_evaluations(prefix: str, db: str) -> list[Evaluation]:
    """Those of the genomes whose id starts so, of recordings none; none where there is no database."""
    if not is_there(db):
        return []
    with open_store(db, read_only=True) as store:
        return [each for each in store.find(prefix) if each.basis is not Basis.REPLAYED]


def _stored_matches(prefix: str, db: str, run: str | None) -> list[Known]:
    if not (run or is_there(db)):
        return []
    with open_store(db, read_only=True) as store:
        within = find_run(store, run) if run else None
        return [(found.genome, found.problem, found.gpu) for found in store.find(prefix, within)]


def _archived_matches(prefix: str) -> list[Known]:
    """Champions by the id that they were measured under, and by that of the same kernel today."""
    found: list[Known] = []
    for champion in (each for gpu in known_gpus() for each in champions(gpu)):
        spec, what = load_gpu(champion.gpu), parse_problem(champion.problem)
        space = load_family(champion.genome.family).space(what.compile_keys(spec.arch), spec)
        today = of_today(champion, space)
        ids = (champion.genome.id, today.genome.id) if today else ()
        if today and any(known.startswith(prefix) for known in ids):
            found.append((today.genome, champion.problem, champion.gpu))
    return found


def _only(option: str, values: list[str], genome_id: str) -> str:
    distinct = list(dict.fromkeys(values))
    if len(distinct) > 1:
        choices = " or ".join(f"--{option} {value}" for value in distinct)
        raise UsageError(f"{genome_id} was evaluated for several: add {choices}.")
    return distinct[0]


def _valid(genome: Genome, problem: Problem, gpu: GpuSpec) -> tuple[Genome, Problem, GpuSpec]:
    """The genome there: where problem or GPU switch other genes on than it was made for, those have their
    first value. UsageError where it is none of its family today.
    """
    family = load_family(genome.family)
    family.check_computes(problem)
    if not family.supports(gpu):
        needs = ", ".join(family.arch)
        raise UsageError(f"{family.name} needs {needs}, {gpu.name} is {gpu.arch}: choose another GPU.")
    keys = problem.compile_keys(gpu.arch)
    space = family.space(keys, gpu)
    if genome.version != family.version:
        raise UsageError(
            f"{genome.id} is of version {genome.version} of {family.name}, which is now at {family.version}: "
            "export it with the evoflash that evaluated it, or search again."
        )
    if genome.edits:  # which are of this text alone
        for key in keys:
            render_edited(genome, key, gpu)
        return genome, problem, gpu
    there = space.genome(genome.as_dict())
    if broken := space.violations(there):
        raise UsageError(
            f"{genome.id} fails {', '.join(broken)} for '{problem}' on {gpu.name}: choose another."
        )
    if there != genome:
        gained = [f"{name}={value}" for name, value in there.values if name not in genome.as_dict()]
        lost = [name for name, _ in genome.values if name not in there.as_dict()]
        changes = [
            *(["with " + " ".join(gained)] if gained else []),
            *(["without " + " ".join(lost)] if lost else []),
        ]
        say(f"{genome.id} is {there.id} for '{problem}' on {gpu.name}: {', '.join(changes)}.")
    return there, problem, gpu


def installed_versions(store: Store) -> dict[str, int]:
    """Of the store's families that are installed here, the versions that evoflash writes today."""
    found = {}
    for name in store.families():
        with contextlib.suppress(EvoflashError):  # one of somebody else's, or of a recording
            found[name] = load_family(name).version
    return found


def older_kernels(
    store: Store, versions: Mapping[str, int], where: Mapping[str, str | int]
) -> tuple[OlderKernels, ...]:
    """The correct kernels that are older than those versions, in runs of which all of `where` is true."""
    conditions = " AND ".join(["TRUE", *(f"r.{name} = :{name}" for name in where)])
    query = f"""SELECT g.family, g.version, COUNT(DISTINCT g.id)
        FROM evaluations AS e JOIN runs AS r ON r.id = e.run_id JOIN genomes AS g ON g.id = e.genome_id
        WHERE e.status = 'correct' AND e.duplicate_of IS NULL AND r.basis <> 'replayed' AND {conditions}
        GROUP BY g.family, g.version ORDER BY g.family, g.version"""
    return tuple(
        OlderKernels(family, version, versions[family], count)
        for family, version, count in store.query(query, where)[1]
        if version < versions.get(family, 0)
    )


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """What is known of one genome for one problem and GPU, and for what else it was evaluated."""

    genome: Genome
    problem: str
    gpu: str
    evaluations: tuple[Evaluation, ...]  # measured first, newest first; several that are alike stand once
    archived: Champion | None  # where the archive has this very kernel for the problem
    others: tuple[tuple[str, str], ...] = ()  # problems and GPUs, the newest first
    origins: tuple[KernelOrigin, ...] = ()  # where a language model proposed it
    counters: KernelProfile | None = None  # where they were read there

    def check_writable(self) -> None:
        """UsageError for a configuration of a recorded space, which is no kernel that can be written."""
        if any(each.basis is Basis.REPLAYED for each in self.evaluations):
            raise UsageError(f"{self.genome.id} is of a recorded space: no command makes it again.")
        if self.genome.edits:
            raise UsageError(
                f"{self.genome.id} edits the text of {self.genome.root.id}: the database alone has it, "
                f"and `evoflash export {self.genome.id[:8]} -o kernel.cu` writes it."
            )

    def as_dicts(self) -> list[dict[str, Any]]:
        """Each evaluation, with what the archive says of the kernel; where there is none that alone."""
        known = self.archived.as_dict() if self.archived else None
        if not self.evaluations:
            return [known] if known else []
        archived = known["archived"] if known else None
        more = {"archived": archived, "proposed_by": [asdict(origin) for origin in self.origins]}
        if self.counters is not None:
            more["counters"] = self.counters.as_dict()
        return [each.as_dict() | more for each in self.evaluations]


def known_kernel(
    prefix: str, db: str, *, problem: str | None = None, gpu: str | None = None, run: str | None = None
) -> KnownKernel:
    """The one genome whose id starts so, for the problem and GPU that are asked for, else its newest ones.

    With `run` by the run of this number or name alone. UsageError where none or several fit.
    """
    if not (run or is_there(db)):
        return _known_kernel(None, prefix, problem=problem, gpu=gpu, run=None)
    with open_store(db, read_only=True) as store:
        return _known_kernel(store, prefix, problem=problem, gpu=gpu, run=run)


def _known_kernel(
    store: Store | None, prefix: str, *, problem: str | None, gpu: str | None, run: str | None
) -> KnownKernel:
    found: list[Evaluation] = []
    if store:
        found = store.find(prefix, find_run(store, run) if run else None)
    where: list[Known] = [(each.genome, each.problem, each.gpu) for each in found]
    where = where or ([] if run else _archived_matches(prefix))
    ids = sorted({genome.id for genome, _, _ in where})
    if not ids:
        missing = f"no kernel's id starts with '{prefix}'"
        raise UsageError(f"{missing}: see `evoflash leaderboard`, or `evoflash best` for the archive's.")
    if len(ids) > 1:
        raise UsageError(f"'{prefix}' could be {', '.join(ids[:6])}: give more digits.")
    asked = (canonical(problem), canonical_gpu(gpu))
    mine = [each for each in where if asked[0] in (None, each[1]) and asked[1] in (None, each[2])]
    if not mine:
        known = "; ".join(f"--problem {what} --gpu {spec}" for _, what, spec in dict.fromkeys(where))
        raise UsageError(f"{ids[0]} was not evaluated for that; what is known is of {known}.")
    genome, chosen = mine[0][0], mine[0][1:]
    evaluations = [each for each in found if (each.problem, each.gpu) == chosen]
    return KnownKernel(
        genome,
        chosen[0],
        chosen[1],
        tuple({_outcome(each): each for each in reversed(evaluations)}.values())[::-1],
        archived_kernel(genome, *chosen),
        tuple(dict.fromkeys(each[1:] for each in where if each[1:] != chosen)),
        origins=read_origins(store, genome.id) if store else (),
        counters=read_profile(store.database, genome.id, *chosen) if store else None,
    )


def _outcome(each: Evaluation) -> tuple[object, ...]:
    """What evaluations that are alike have in common."""
    times = tuple((timing.workload, timing.protocol, timing.median_us) for timing in each.timings)
    return each.basis, each.status, each.rung, each.reason, each.model_version, each.score_us, times


def nearest_seed(genome: Genome, problem: str, gpu: str) -> Genome | None:
    """The seed that shares most values; None where the family has none for this, or is not here."""
    try:
        family, what, spec = load_family(genome.family), parse_problem(problem), load_gpu(gpu)
        seeds = family.seeds_for(what, family.space(what.compile_keys(spec.arch), spec), spec)
    except EvoflashError:
        return None
    return max(seeds, key=lambda seed: len(set(seed.values) & set(genome.values)), default=None)


@dataclass(frozen=True, slots=True)
class FailureCounts:
    """What the candidates of a run failed at, the commonest first: status, rung, reason and how often."""

    evaluated: int
    counts: tuple[tuple[str, str, str, int], ...]
    credit: ModelCredit | None = None  # of the run's language model, which has failures of its own

    def as_dicts(self) -> list[dict[str, str | int]]:
        """One for each status, rung and reason."""
        return [{"status": s, "rung": r, "reason": w, "count": n} for s, r, w, n in self.counts]


def failures_of(db: str, run: str | None = None) -> FailureCounts:
    """Those of the run of this number or name, without one of the newest search."""
    with open_store(db, read_only=True) as store:
        return failures(store, find_run(store, run))


def failures(store: Store, run: Run) -> FailureCounts:
    history = store.history(run)
    failed = (e for _, e in history if not e.is_correct and not e.is_screened)
    counts = Counter((str(e.status), str(e.rung), e.reason) for e in failed)
    ordered = tuple((*what, n) for what, n in counts.most_common())
    return FailureCounts(len(history), ordered, credit(store, run, history))
