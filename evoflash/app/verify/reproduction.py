"""Takes the kernel that a claim names up the whole ladder on this machine. Judges no claim.

With the claim's GPU here it is emulated, checked on every shape and timed beside the libraries, and stored as
a run of its own, as `evoflash evaluate` does. Without it the emulator checks it; an estimate is estimated
anew. An exported file whose kernel was edited is checked as its text stands, and timed where its GPU is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from evoflash.app.check.confined_runs import confinement_for
from evoflash.app.check.runs import CheckReport, check_kernel
from evoflash.app.check.subject import of_export
from evoflash.app.compare import gpu_task
from evoflash.app.evaluate import GenomeRequest, emulate, evaluate
from evoflash.app.verify.claim import Claim
from evoflash.errors import DeviceError, UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.gpu.launcher import PresentGpu, present_gpu, present_spec, spec_of
from evoflash.gpu.process.outcome import with_outcome
from evoflash.gpu.process.worker import GpuWorker
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_words, genome_of_words, valid_genome
from evoflash.notices import say
from evoflash.perf_model import model_version
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, canonical_gpu, load_gpu

_RUNS = 4  # of each shape, as `evoflash check` makes by default


def evaluate_edited(path: Path, *, is_measured: bool) -> Evaluation:
    """What became of the kernel's text: the emulator's findings, with `is_measured` every rung on the GPU.

    UsageError where the file is not laid out as an export any more.
    """
    (subject,) = of_export(path, problem=None, gpu=None)
    confinement = confinement_for(is_foreign=subject.is_foreign)
    checked, named = check_kernel(subject, runs=_RUNS, seed=1, confinement=confinement), _banner(path)
    evaluation = _evaluation_of_check(named, checked)
    is_next = is_measured and evaluation.is_correct
    return _measure_edited(path, named[1], checked, evaluation) if is_next else evaluation


def _evaluation_of_check(named: tuple[Genome, Problem, GpuSpec], checked: CheckReport) -> Evaluation:
    genome, problem, gpu = named
    wrong = [finding for finding in checked.findings if finding.severity == "error"]
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Evaluation(
        genome,
        str(problem),
        gpu.name,
        Basis.ESTIMATED,
        Status.CORRECTNESS if wrong else Status.CORRECT,
        Rung.PREFLIGHT,
        reason=f"{wrong[0].message}{more}" if wrong else "",
        builds=(checked.build,) if checked.build else (),
    )


def _banner(path: Path) -> tuple[Genome, Problem, GpuSpec]:
    """The genome that it was, and what for."""
    words = export_words(path.read_text(encoding="utf-8"), path)
    assert words is not None, "of_exported() has read them"
    return genome_of_words(words)


def _measure_edited(path: Path, problem: Problem, checked: CheckReport, emulated: Evaluation) -> Evaluation:
    assert checked.build is not None, "what NVRTC refuses is an error"
    genome, spec = emulated.genome, present_spec(emulated.gpu)
    family = load_family(genome.family)
    task = gpu_task(
        str(path), problem, (checked.build,), lambda w: family.launches(genome, w, spec), spec, seed=0
    )
    with GpuWorker() as worker:
        outcome = worker.submit(task).result()
    return with_outcome(replace(emulated, basis=Basis.MEASURED, verdicts=(), environment={}), outcome)


STRATEGY = "verify"  # the name of its runs in the store: no search


class How(StrEnum):
    """What was done with the kernel here."""

    NOTHING = "not run"  # the claim is untrue as it stands, or names no kernel of this evoflash
    EMULATED = "checked by the emulator"
    ESTIMATED = "checked by the emulator, estimated"
    MEASURED = "checked and measured"


@dataclass(frozen=True, slots=True)
class Identity:
    """The genome that a claim's values are; None, and why, where they are none of today."""

    genome: Genome | None
    fault: str = ""  # it is not what it says
    apart: str = ""  # it may be what it says, and is nothing that this evoflash has


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came out here. `machine` is the GPU that is present, None without one that is known."""

    identity: Identity
    how: How
    evaluation: Evaluation | None = None
    machine: PresentGpu | None = None
    gpu: str = ""  # the machine's GPU by its spec's name


def find_out(claim: Claim, db: str, *, argv: Sequence[str]) -> Reproduction:
    """Take the claim's kernel as far as this machine can. UsageError for a problem or GPU that is unknown."""
    identity = identify(claim)
    machine, gpu = _present()
    if claim.edited is not None and identity.genome is not None:
        how = _way(claim, gpu)
        evaluation = evaluate_edited(claim.edited, is_measured=how is How.MEASURED)
        return Reproduction(identity, how, evaluation, machine, gpu)
    if claim.faults or identity.genome is None or identity.fault:
        return Reproduction(identity, How.NOTHING, None, machine, gpu)
    how = _way(claim, gpu)
    say(f"{identity.genome.id} for {claim.problem} on {canonical_gpu(claim.gpu)} is to be {how}.")
    return Reproduction(
        identity, how, _evaluate_claim(claim, identity.genome, how, db, argv=argv), machine, gpu
    )


def _way(claim: Claim, gpu: str) -> How:
    if claim.basis is Basis.ESTIMATED:
        return How.ESTIMATED if claim.model_version in ("", model_version()) else How.EMULATED
    return How.MEASURED if gpu == canonical_gpu(claim.gpu) else How.EMULATED


def _evaluate_claim(claim: Claim, genome: Genome, how: How, db: str, *, argv: Sequence[str]) -> Evaluation:
    if how is How.EMULATED:
        return emulate(genome, parse_problem(claim.problem), load_gpu(claim.gpu))
    subject = GenomeRequest(genome.family, genome.as_dict(), claim.problem, canonical_gpu(claim.gpu))
    evaluator = "gpu" if how is How.MEASURED else "emulated"
    return evaluate(subject, evaluator, db, argv=argv, strategy=STRATEGY).evaluation


def _present() -> tuple[PresentGpu | None, str]:
    """This machine's GPU and its name here; none where it is not known."""
    try:
        machine = present_gpu()
    except DeviceError:
        return None, ""
    try:
        return machine, spec_of(machine).name
    except UsageError:
        return machine, ""


def identify(claim: Claim) -> Identity:
    """The genome that the claim's values are today, and whether they are those of its id."""
    problem, spec = parse_problem(claim.problem), load_gpu(claim.gpu)
    try:
        family = load_family(claim.family)
        genome = valid_genome(claim.family, claim.values, problem, spec)
    except UsageError as wrong:
        return Identity(None, apart=f"its values are no kernel of this evoflash: {str(wrong).rstrip('.')}")
    # Of the values as they are claimed: a family that got genes since has more of them today.
    named = {
        Genome(family.name, version, tuple(sorted(claim.values.items()))).id: version
        for version in range(1, family.version + 1)
    }
    if claim.genome_id in ("", genome.id) or named.get(claim.genome_id) == family.version:
        return Identity(genome)
    if (version := named.get(claim.genome_id)) is not None:
        now = f"this evoflash has version {family.version}"
        return Identity(None, apart=f"it is of version {version} of {family.name}, {now}")
    return Identity(genome, fault=f"its values are those of {genome.id}, not of {claim.genome_id}")
