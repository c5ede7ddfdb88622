"""Reads and writes Kernel Tuner's caches, and finds out which kind of record a file is. Evaluates nothing.

A cache is `{device_name, kernel_name, problem_size, tune_params_keys, tune_params, objective, cache}`; an
entry of `cache` holds a configuration, its `time` and `times` in ms, or the name of an error in their place.
A cache that was still being written lacks its last two braces. Ours carry what Kernel Tuner has no word for
(the six statuses, params that are inactive, lower bounds) under the key `evoflash`, which it ignores. A
space that was recorded of our families gets from them what a search knows of its space.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Rung, Status
from evoflash.kernels.family import load_family
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.replay.foreign_records import Json, check_digest, digest_of, distinct, genome_of, read_json
from evoflash.replay.foreign_times import (
    agreeing,
    check_direction,
    is_name_of_time,
    is_time,
    recorded_value,
    us_of_unit,
)
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.replay.t4_results import from_t4
from evoflash.space import Genome, Param
from evoflash.specs import load_gpu
from evoflash.written_files import write_bytes


def with_family(recording: Recording) -> Recording:
    """The recording with its family's blocks and proportions; as it was where the family is unknown here, or
    of another version, or the problem or the GPU is unknown.
    """
    space = recording.space
    try:
        family, gpu = load_family(space.family), load_gpu(recording.device)
        problem = parse_problem(recording.problem)
    except UsageError:
        return recording
    if family.version != space.version:
        return recording
    recorded = {param.name for param in space.params}
    blocks = (tuple(name for name in block if name in recorded) for block in family.blocks)
    known = replace(
        space, blocks=tuple(filter(None, blocks)), proportions=proportions_on(problem, family, gpu)
    )
    return replace(recording, space=known)


_ERRORS = {
    "InvalidConfig": (Status.CONSTRAINTS, Rung.CHECKS),
    "CompilationFailedConfig": (Status.COMPILE, Rung.COMPILE),
    "RuntimeFailedConfig": (Status.RUNTIME, Rung.SMOKE),
    "ErrorConfig": (Status.RUNTIME, Rung.SMOKE),
}


def read_recording(path: Path) -> Recording:
    """A recorded space from a Kernel Tuner cache or T4 file, plain or gzip.

    UsageError, naming the file, when it cannot be read or is neither.
    """
    try:
        data, remarks = read_json(path)
        if isinstance(data.get("cache"), dict):
            found = _from_cache(data, is_whole=not remarks)
        elif isinstance(data.get("results"), list):
            found = from_t4(data, path)
        else:
            raise UsageError("it is no Kernel Tuner record: give a cache file or T4 results, plain or gzip.")
        return with_family(replace(found, remarks=(*remarks, *found.remarks)))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is no whole Kernel Tuner record ({what}): give another file.") from None


def shipped_spaces() -> tuple[Path, ...]:
    """The files of two small recorded spaces that are shipped; spaces/README.md says whose they are."""
    return tuple(sorted((Path(__file__).parent / "spaces").glob("*.json.gz")))


# ---- caches in


def _from_cache(data: Json, *, is_whole: bool) -> Recording:
    ours = data.get("evoflash", {})
    if is_whole:
        noted = {name: value for name, value in ours.items() if name != "digest"}
        check_digest(ours.get("digest"), {**data, "evoflash": noted}, "the record")
    names = data["tune_params_keys"]
    params = [Param(name, distinct(data["tune_params"][name])) for name in names]
    family, version = ours.get("family", data["kernel_name"]), ours.get("version", 1)
    outcomes: dict[Genome, RecordedOutcome] = {}
    for key, entry in data["cache"].items():
        try:
            inactive = entry.get("evoflash", {}).get("inactive", ())
            genome = genome_of((family, version), params, entry, inactive)
            outcome = _outcome(entry, _objective(data))
        except UsageError as error:
            raise UsageError(f"cache entry '{key}': {error}") from None
        except KeyError as error:
            raise UsageError(f"cache entry '{key}' has no {error}: add it, or leave the entry out.") from None
        if genome in outcomes:
            raise UsageError(f"the configuration of cache entry '{key}' stands there twice: remove one.")
        outcomes[genome] = outcome
    size = data.get("problem_size", ())
    basis = Basis(ours.get("basis", Basis.MEASURED))
    return Recording(
        recorded_space(family, params, outcomes, version=version),
        problem=ours.get("problem", f"{data['kernel_name']} {_words(size)}".strip()),
        device=ours.get("gpu", data["device_name"]),
        basis=basis,
        problem_size=tuple(size) if isinstance(size, list) else (size,) if isinstance(size, int) else (),
        # Files of estimates that were written before the model was noted in them stay estimates.
        model_version=ours.get("model_version", "unknown") if basis is Basis.ESTIMATED else "",
        notes=ours.get("notes", {}),
        remarks=_remarks(data),
    )


def _remarks(data: Json) -> tuple[str, ...]:
    """What is to be said of a cache that ranks by something else. UsageError where its times are none."""
    objective = _objective(data)
    unit = data.get("objective_unit", data.get("time_unit"))
    if unit and us_of_unit(str(unit)) != 1e3 and is_name_of_time(objective):
        raise UsageError(f"its times are in '{unit}', and those of a Kernel Tuner cache in ms: correct one.")
    if is_name_of_time(objective):
        check_direction(data, f"its objective '{objective}'")
        return ()
    return (f"it ranks by '{objective}', which is no time: its 'time' is replayed instead.",)


def _objective(data: Json) -> str:
    """The one that it ranks by, of several the first."""
    given = data.get("objective") or "time"
    return str(given[0] if isinstance(given, list) else given)


def _words(size: object) -> str:
    return "x".join(map(str, size)) if isinstance(size, list | tuple) else str(size)


def _outcome(entry: Json, objective: str) -> RecordedOutcome:
    compile_s = float(entry.get("compile_time") or 0) / 1e3
    ours = entry.get("evoflash")
    if ours:
        return RecordedOutcome(
            Status(ours["status"]),
            Rung(ours["rung"]),
            ours.get("reason", ""),
            ours.get("score_us"),
            tuple(ours.get("times_us", ())),
            ours.get("is_lower_bound", False),
            ours.get("compile_s", compile_s),
        )
    # Of a configuration that failed Kernel Tuner knows the objective alone, and its value is the error.
    failed = entry.get(objective)
    time = recorded_value(entry.get("time", failed) if isinstance(failed, str) else entry["time"], "its time")
    error = entry.get("__error__", time if isinstance(time, str) else None)
    if error is not None:
        status, rung = _ERRORS.get(error, _ERRORS["ErrorConfig"])
        return RecordedOutcome(status, rung, str(error), compile_s=compile_s)
    if not is_time(time):
        return RecordedOutcome(
            Status.RUNTIME, Rung.TIMING, f"the recorded time is {time}", compile_s=compile_s
        )
    launches = agreeing([each for each in entry.get("times") or () if is_time(each)], time)
    times_us = tuple(1e3 * each for each in launches)
    return RecordedOutcome(Status.CORRECT, Rung.DONE, "", 1e3 * time, times_us, compile_s=compile_s)


# ---- caches out


def write_recording(path: Path, recording: Recording) -> None:
    """Write a cache file that Kernel Tuner reads and read_recording reads back whole; .gz compresses."""
    text = cache_text(recording).encode()
    # Without a time stamp equal recordings are equal files.
    write_bytes(path, gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def cache_text(recording: Recording) -> str:
    """The cache as Kernel Tuner lays it out: the head indented, one line per configuration."""
    space = recording.space
    head: Json = {
        "device_name": recording.device,
        "kernel_name": space.family,
        "problem_size": list(recording.problem_size),
        "tune_params_keys": list(space.names),
        "tune_params": {param.name: list(param.values) for param in space.params},
        "objective": "time",
        "evoflash": {
            "family": space.family,
            "version": space.version,
            "problem": recording.problem,
            "gpu": recording.device,
            "basis": recording.basis.value,
            **({"model_version": recording.model_version} if recording.model_version else {}),
            **({"notes": dict(recording.notes)} if recording.notes else {}),
        },
    }
    entries = [_entry(space.params, genome, outcome) for genome, outcome in space.outcomes.items()]
    head["evoflash"]["digest"] = digest_of({**head, "cache": {_key(space.params, e): e for e in entries}})
    lines = ",\n".join(f"{json.dumps(_key(space.params, e))}: {json.dumps(e)}" for e in entries)
    return json.dumps(head, indent="").removesuffix("\n}") + f',\n"cache": {{\n{lines}}}\n}}\n'


def _key(params: tuple[Param, ...], entry: Json) -> str:
    return ",".join(str(entry[param.name]) for param in params)


def _entry(params: tuple[Param, ...], genome: Genome, outcome: RecordedOutcome) -> Json:
    values = genome.as_dict()
    entry: Json = {param.name: values.get(param.name, param.values[0]) for param in params}
    if outcome.score_us is None:
        entry["time"] = entry["__error__"] = _error_name(outcome.status)
    else:
        entry["time"] = outcome.score_us / 1e3
        entry["times"] = [time / 1e3 for time in outcome.times_us]
    # Kernel Tuner's simulation adds these up.
    entry |= {"compile_time": 1e3 * outcome.compile_s, "verification_time": 0}
    entry |= {"benchmark_time": sum(outcome.times_us) / 1e3, "strategy_time": 0, "framework_time": 0}
    return entry | {"evoflash": _exact(outcome, [p.name for p in params if p.name not in values])}


def _exact(outcome: RecordedOutcome, inactive: list[str]) -> Mapping[str, Any]:
    # Times again, in us: dividing by 1000 and multiplying again need not give the same number.
    given = {
        "reason": outcome.reason,
        "score_us": outcome.score_us,
        "times_us": list(outcome.times_us),
        "is_lower_bound": outcome.is_lower_bound,
        "compile_s": outcome.compile_s,
        "inactive": inactive,
    }
    kept = {name: value for name, value in given.items() if value not in (None, "", [], False)}
    return {"status": outcome.status.value, "rung": outcome.rung.value, **kept}


def _error_name(status: Status) -> str:
    names = {Status.CONSTRAINTS: "InvalidConfig", Status.COMPILE: "CompilationFailedConfig"}
    return names.get(status, "RuntimeFailedConfig")
