"""Makes one claim of an id, a JSON file, stdin, a .cu file or a folder. Runs no kernel.

The kernel that an exported Python file holds is read as text: nothing of the file is run. What can be seen to
be untrue by reading a file becomes a fault of the claim.
"""

import ast
import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import expanduser
from pathlib import Path
from typing import Any

from evoflash import operation as registry
from evoflash.app.check.subject import edits_in
from evoflash.app.kernel_lookup import known_genome, stored_evaluations
from evoflash.app.verify.claim import Claim, Json, of_evaluation, of_json
from evoflash.app.verify.surroundings import of_description, of_file, of_folder
from evoflash.champions.evidence import known_times
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.exports.launch_json import Artefact
from evoflash.kernels.renderer import check_unedited
from evoflash.kernels.standalone import export_kernel, export_words, genome_of_words
from evoflash.problem import canonical, parse_problem
from evoflash.runtime.description import FORMAT
from evoflash.specs import canonical_gpu

_MOST = 1 << 28  # bytes of a cubin
_DESCRIPTION, _CUBINS = "DESCRIPTION", "_CUBINS"


@dataclass(frozen=True, slots=True)
class EmbeddedKernel:
    """What the file holds."""

    description: Mapping[str, Any]
    cubins: Mapping[str, bytes]  # by architecture
    packed: str  # the literal of the cubins, as it stands in the text


def extract_kernel(text: str, name: str) -> EmbeddedKernel:
    """UsageError where the file is no such export, or its kernel cannot be read."""
    try:
        values = _assignments(ast.parse(text))
        description = json.loads(ast.literal_eval(values[_DESCRIPTION].args[0]))  # type: ignore[attr-defined]
        texts = ast.literal_eval(values[_CUBINS])
        cubins = {arch: _unpack(packed) for arch, packed in texts.items()}
        literal = ast.get_source_segment(text, values[_CUBINS])
    except (SyntaxError, ValueError, KeyError, IndexError, AttributeError, RecursionError, TypeError):
        raise UsageError(
            f"{name} is no Python file that `evoflash export` wrote, or was cut short: export it again."
        ) from None
    return EmbeddedKernel(description, cubins, literal or "")


def _assignments(tree: ast.Module) -> dict[str, ast.expr]:
    """Values by name, of the file's own assignments; the last one counts, as it would for Python."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _unpack(packed: str) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if unpacking.unconsumed_tail or not unpacking.eof:
        raise ValueError("cut short, or too large")
    return content


_LISTS = ("leaderboard", "best", "results")  # where rows are in an object; results: Kernel Tuner's T4
_ID = re.compile(r"[0-9a-f]{1,16}")
_WANTED = "an id, a JSON file or - for stdin, an exported file, or an exported folder with its launch.json"


@dataclass(frozen=True, slots=True)
class ClaimSelector:
    """Which of several claims is meant; None: it does not matter, or there is one."""

    row: int | None = None  # of a file with several, from 1
    problem: str | None = None  # for ids that were evaluated for several, and for files
    gpu: str | None = None


def claim_of(what: str, asked: ClaimSelector, db: str) -> Claim:
    """The one claim. UsageError where there is none or several, for what cannot be read, and where it is of
    another problem or GPU than what is asked for.
    """
    claim = _claim(what, asked, db)
    wanted = canonical(asked.problem), canonical_gpu(asked.gpu)
    said = canonical(claim.problem) if wanted[0] else claim.problem, claim.gpu
    for option, mine, other in zip(("--problem", "--gpu"), wanted, said, strict=True):
        if mine is not None and mine != other:
            raise UsageError(f"{claim.origin} is a claim for {other}, not for {mine}: leave {option} out.")
    return claim


def _claim(what: str, asked: ClaimSelector, db: str) -> Claim:
    path = Path(expanduser(what))
    if what == "-":
        return _of_text(sys.stdin.read(), "stdin", asked)
    if path.is_dir():
        return _of_folder(path, asked)
    if path.suffix == ".cu":
        return _of_cuda(path)
    if path.suffix == ".py":
        return _of_python(_text(path), str(path))
    if path.suffix == ".cubin":  # what it is stands beside it
        path = path.with_suffix(".json")
    if path.exists() or path.suffix == ".json":
        claim = _of_text(_text(path), str(path), asked)
        return _with_cubins(claim, path)
    if not _ID.fullmatch(what):
        raise UsageError(f"'{what}' is none of what can be verified: give {_WANTED}.")
    return _of_id(what, asked, db)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read: give {_WANTED}.") from None


# ---- an id


def _of_id(prefix: str, asked: ClaimSelector, db: str) -> Claim:
    genome, problem, gpu = known_genome(prefix, db, problem=asked.problem, gpu=asked.gpu)
    check_unedited(genome)
    stored = stored_evaluations(genome.id, db)
    known = known_times(genome, problem, gpu, stored)
    if known.measured is not None:
        return of_evaluation(known.measured, f"{genome.id} of {db}")
    if known.archived is not None:
        what = f"{genome.id} of the archive"
        claim = Claim(what, genome.family, genome.as_dict(), str(problem), gpu.name, genome.id)
        return replace(claim, time_us=known.archived.us, device=known.archived.device)
    here = [e for e in stored if (e.problem, e.gpu) == (str(problem), gpu.name)]
    if here:
        return of_evaluation(known.estimated or here[0], f"{genome.id} of {db}")
    raise UsageError(
        f"nothing is said of {genome.id} for '{problem}' on {gpu.name}: `evoflash evaluate` finds it out."
    )


# ---- JSON


def _of_text(text: str, name: str, asked: ClaimSelector) -> Claim:
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        said = getattr(error, "msg", "it is nested too deeply")
        raise UsageError(f"{name} is no JSON ({said}): give {_WANTED}.") from None
    if isinstance(data, dict) and isinstance(data.get("sources"), list):
        return _of_solution(data, name)
    rows = _rows(data)
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f"{name} holds no row: give {_WANTED}.")
    number, row = _choose_row(rows, name, asked)
    where = f"row {number} of {name}" if len(rows) > 1 else name
    claim = of_json(row, where)
    problem, gpu = claim.problem or asked.problem, claim.gpu or asked.gpu
    if problem is None or gpu is None:
        raise UsageError(f"{where} does not say for what: add --problem and --gpu.")
    return replace(claim, problem=str(parse_problem(problem)), gpu=gpu)


def _rows(data: Any) -> list[Any]:
    if isinstance(data, dict):
        inner = next((data[key] for key in _LISTS if data.get(key) is not None), data)
        return inner if isinstance(inner, list) else [inner]
    return data if isinstance(data, list) else []


def _choose_row(
    rows: Sequence[dict[str, Any]], name: str, asked: ClaimSelector
) -> tuple[int, dict[str, Any]]:
    if asked.row is not None:
        if asked.row > len(rows):
            raise UsageError(f"{name} has {len(rows)} rows, no row {asked.row}: give a smaller --row.")
        return asked.row, rows[asked.row - 1]
    what = canonical(asked.problem)
    fits = [
        (at, row)
        for at, row in enumerate(rows, 1)
        if what in (None, row.get("problem")) and asked.gpu in (None, row.get("gpu"))
    ]
    found = fits or list(enumerate(rows, 1))
    if len(found) > 1:
        raise UsageError(f"{name} has {len(found)} rows: say which with --row, the first is 1.")
    return found[0]


# ---- files of an export


def _of_cuda(path: Path) -> Claim:
    """An exported file; one that was edited has faults. UsageError for a file without an export's banner."""
    text = _text(path)
    words = export_words(text, path)
    if words is None:
        raise UsageError(
            f"{path} has no banner of an export, so it claims nothing: `evoflash check` looks into it."
        )
    genome, problem, gpu = genome_of_words(words)
    claim = Claim(str(path), genome.family, genome.as_dict(), str(problem), gpu.name, genome.id)
    claim = _with_time(claim, words.claims)
    if text == export_kernel(genome, problem, gpu, prefix=words.prefix, claims=words.claims):
        return claim
    return _edited_claim(claim, path, text)


_TIME = re.compile(r"Time: +~?([0-9.]+) us \((archived: measured on (.+?), [0-9-]+|ESTIMATED|measured)\b")


def _with_time(claim: Claim, lines: Sequence[str]) -> Claim:
    """With the time of a file's head; of several workloads the mean counts, which is not there."""
    found = [known for line in lines if (known := _TIME.match(line))]
    measured = [each for each in found if each[2] != "ESTIMATED"]
    if len(measured or found) != 1:
        return claim
    (said,) = measured or found
    basis = Basis.MEASURED if measured else Basis.ESTIMATED
    off_us = 0.51 * 10 ** -len(said[1].partition(".")[2])
    return replace(claim, time_us=float(said[1]), rounded_us=off_us, basis=basis, device=said[3] or "")


def _edited_claim(claim: Claim, path: Path, text: str) -> Claim:
    """The claim of an export that is not what its banner's command prints, and where it differs."""
    try:
        lines = edits_in(path, text)
    except UsageError as wrong:
        return replace(claim, faults=(str(wrong).partition(": it was edited")[0].partition(": export")[0],))
    if not lines:
        why = f"{path} is not what the command in its banner prints: it differs outside of the kernel"
        return replace(claim, faults=(why,))
    many = f"{lines} line{'s' * (lines > 1)} not as exported"
    why = f"the kernel in {path} is not the one that its banner names ({many})"
    return replace(claim, faults=(why,), edited=path)


def _of_folder(folder: Path, asked: ClaimSelector) -> Claim:
    """A folder of an export: a launch.json with its cubins, or equal ones, as a hub folder has them."""
    found = sorted(path for path in folder.rglob("*.json") if f'"{FORMAT}"' in _text(path))
    texts = {_text(path) for path in found}
    if len(texts) != 1:
        many = f"{len(texts)} that differ" if texts else "none"
        raise UsageError(f"{folder} should hold one launch.json, and holds {many}: name an exported folder.")
    claims = [_with_cubins(_of_text(text, str(found[0]), asked), path) for text in texts for path in found]
    faults = tuple(fault for claim in claims for fault in claim.faults)
    return replace(claims[0], faults=faults, apart=(*claims[0].apart, *_around_in(folder, found[0])))


def _around_in(folder: Path, description: Path) -> tuple[str, ...]:
    """Where the Python of a hub folder is not this evoflash's."""
    data = json.loads(_text(description))
    return of_folder(folder, Artefact(data, dict.fromkeys(data["images"], b"")))


def _of_solution(data: Json, name: str) -> Claim:
    """A Solution of flashinfer-bench: its one Python file."""
    texts = [each.get("content") for each in data["sources"] if isinstance(each, dict)]
    if len(texts) != 1 or not isinstance(texts[0], str):
        raise UsageError(f"{name} is a Solution of {len(texts)} files; ours have one: give {_WANTED}.")
    return _of_python(texts[0], name, is_solution=True)


def _of_python(text: str, name: str, *, is_solution: bool = False) -> Claim:
    """attention.py or torch_op.py, or the file of a Solution: the description and the machine code inside."""
    held = extract_kernel(text, name)
    if not isinstance(held.description, dict) or held.description.get("format") != FORMAT:
        raise UsageError(f"{name} holds no launch.json of evoflash: export it again.")
    if (count := text.count("\nKERNELS.append(")) > 1:
        raise UsageError(
            f"{name} holds {count} kernels: export each by itself, with --kind torch, and verify that."
        )
    claim = of_json(held.description, name)
    images = [held.description["images"][build.arch] for build in claim.builds]
    where = [f"the machine code for {build.arch} in {name}" for build in claim.builds]
    cubins = [held.cubins.get(build.arch) for build in claim.builds]
    made = Artefact(dict(held.description), dict(held.cubins))
    form = registry.load(str(held.description.get("operation"))).launch_form
    told = of_file(
        text,
        held.packed,
        made,
        name,
        ending=form.solution.run if form and form.solution and is_solution else "",
    )
    known = _with_code(claim, where, cubins, images)
    return replace(known, apart=(*of_description(held.description, name), *told))


def _with_cubins(claim: Claim, path: Path) -> Claim:
    """Of a launch.json the claim with its cubins' machine code, and a fault for each that is another file."""
    data = json.loads(_text(path))
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return claim
    images = [data["images"][build.arch] for build in claim.builds]
    paths = [path.parent / Path(str(image.get("file", ""))).name for image in images]
    cubins = [each.read_bytes() if each.is_file() else None for each in paths]
    known = _with_code(claim, [str(each) for each in paths], cubins, images)
    return replace(known, apart=of_description(data, str(path)))


def _with_code(
    claim: Claim, names: Sequence[str], cubins: Sequence[bytes | None], images: Sequence[Json]
) -> Claim:
    """The claim with the machine code of each build, and a fault for each that is another's."""
    found = [_machine_code(*each) for each in zip(names, cubins, images, strict=True)]
    builds = (replace(build, text_sha=sha) for build, (sha, _) in zip(claim.builds, found, strict=True))
    return replace(claim, builds=tuple(builds), faults=(*claim.faults, *(why for _, why in found if why)))


def _machine_code(name: str, content: bytes | None, image: Json) -> tuple[str, str]:
    """The hash of a cubin's machine code, empty where another compiler made it; and what is wrong with it."""
    from evoflash.kernels.nvrtc import nvrtc_version, text_sha

    if content is None:
        return "", f"{name} is not there"
    if hashlib.sha256(content).hexdigest() != image.get("sha256"):
        return "", f"{name} is not what its launch.json describes: its sha256 is another"
    try:
        sha = text_sha(content)
    except (struct.error, IndexError, ValueError):
        return "", f"{name} holds no machine code"
    return (sha if f"NVRTC {nvrtc_version()} " in str(image.get("compiler", "")) else ""), ""
