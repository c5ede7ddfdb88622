"""Writes a kernel in one of the kinds of evoflash/exports/ and names the commands that do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evoflash.app.kernel_lookup import known_genome
from evoflash.errors import UsageError
from evoflash.evaluation import Evaluation
from evoflash.exports import kernel_cu
from evoflash.exports.exported import ExportRequest, gpus_of, with_evaluation
from evoflash.exports.kinds import kind_of
from evoflash.kernels.standalone import genome_of, reproducing_command
from evoflash.notices import db_words, say
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.workload import CompileKey, Workload
from evoflash.written_files import write_text, wrote

NAMED = 4  # files that are named one by one


def requested_kernel(
    genome_id: str | None,
    family: str | None,
    values: list[str],
    *,
    problem: str | None,
    gpu: str | None,
    prefix: str | None,
    db: str,
    run: str | None = None,
) -> ExportRequest:
    """A genome by its id, or by a family and values. UsageError for both, and for none.

    With `run` the id is one that this run evaluated, and what is known of it is what that run found out.
    """
    if (genome_id is None) == (family is None):
        raise UsageError("give a genome id (its first digits do), or --family with --set and --gpu.")
    if genome_id is not None:
        if values:
            raise UsageError("--set goes with --family; an id has its values.")
        what = known_genome(genome_id, db, problem=problem, gpu=gpu, run=run)
        return ExportRequest(*what, prefix=prefix, run=run)
    if run is not None:
        raise UsageError("--run says which evaluation of an id is meant: give an id, or leave it out.")
    if gpu is None:
        raise UsageError("--family needs --gpu: what a kernel may use depends on it; see `evoflash gpus`.")
    what = genome_of(str(family), values, problem=problem, gpu=gpu)
    return ExportRequest(*what, prefix=prefix)


def request_of(evaluation: Evaluation, prefix: str | None = None) -> ExportRequest:
    """The kernel of an evaluation, and nothing that is known of it."""
    what, gpu = parse_problem(evaluation.problem), load_gpu(evaluation.gpu)
    return ExportRequest(evaluation.genome, what, gpu, prefix=prefix)


def cuda_of(request: ExportRequest) -> str:
    """The kernel as one complete .cu file."""
    return kernel_cu.text_of(request)


def write(
    exported: ExportRequest, path: str, *, kind: str | None, archs: str | None, db: str | None = None
) -> tuple[Path, ...]:
    """As write_files(), and says so. What `db` knows of the kernel is in the files."""
    if db is not None:
        exported = with_evaluation(exported, db)
    files = write_files(exported, path, kind=kind, archs=archs)
    say(f"{wrote()} {_in_words(files, path)}")
    return files


def _in_words(files: Sequence[Path], path: str) -> str:
    """Each file; of a folder with many of them how many there are."""
    if len(files) <= NAMED:
        return ", ".join(map(str, files))
    return f"{sum(file != Path(path) for file in files)} files in {path}"


def write_files(
    exported: ExportRequest, path: str, *, kind: str | None, archs: str | None
) -> tuple[Path, ...]:
    """The files written. UsageError for a kind that is none, or that cannot be written."""
    if not Path(path).name:
        raise UsageError(f"'{path}' names no file: give a path such as kernel.cu.")
    chosen = kind_of(kind, path)
    others = gpus_of(_words(archs, exported.gpu.arch), exported.genome, exported.problem, exported.gpu)
    if archs is not None and not chosen.has_code:
        raise UsageError(f"--arch is for kinds that hold machine code; {chosen.name} does not: leave it out.")
    if exported.prefix is not None and chosen.name != "cu":
        raise UsageError(f"--prefix is for the C names of a .cu file; {chosen.name} has none: leave it out.")
    return chosen.write(replace(exported, others=others), Path(path))


def _words(archs: str | None, own: str) -> Sequence[str]:
    words = [word.strip() for word in archs.split(",")] if archs else [own]
    if own not in words:
        raise UsageError(f"--arch {archs}: the kernel's own is {own}: name it too, or give another --gpu.")
    return words


def write_evaluated(
    evaluation: Evaluation, path: str, *, kind: str | None, archs: str | None, prefix: str | None, db: str
) -> tuple[Path, ...]:
    """As write_files(); the files say what `db` knows of the kernel, else what the evaluation says."""
    known = with_evaluation(request_of(evaluation, prefix), db)
    if known.evaluation is None and evaluation.is_correct:
        known = replace(known, evaluation=evaluation)
    return write_files(known, path, kind=kind, archs=archs)


def write_page(path: Path, text: str, *, says_size: bool = False) -> None:
    """A text file, whole or not at all, and says so. UsageError where the path cannot be written."""
    write_text(path, text)
    say(f"{wrote()} {path}" + (f" ({len(text.encode()) / 1024:.0f} KB)" if says_size else ""))


def export_commands(genome: Genome, problem: str, gpu: str) -> list[str]:
    """The commands that export it, one for each kernel that its problem needs.

    Problem and GPU are in it: the id alone would do only until the genome is evaluated for another one. None
    for what another tuner recorded, of a problem or a GPU that evoflash does not know.
    """
    try:
        parts = one_kernel_each(problem, load_gpu(gpu).arch)
    except UsageError:
        return []
    base = f"evoflash export {genome.id}{db_words()}"
    return [f"{base} --problem {part} --gpu {gpu}" for part in parts]


def reproducing_commands(genome: Genome, problem: str, gpu: str) -> list[str]:
    """The commands that export it without a database, one for each kernel that its problem needs."""
    spec = load_gpu(gpu)
    return [reproducing_command(genome, part, spec) for part in one_kernel_each(problem, spec.arch)]


def one_kernel_each(problem: str, arch: str) -> list[Problem]:
    """The problem's workloads, divided into those that one compiled kernel serves."""
    groups: dict[CompileKey, list[Workload]] = {}
    for workload in parse_problem(problem).workloads:
        groups.setdefault(workload.compile_key(arch), []).append(workload)
    return [Problem(tuple(workloads)) for workloads in groups.values()]
