"""Reads and writes Kernel Tuner's files, which are caches and T4 results. Evaluates nothing.

A cache is `{device_name, kernel_name, problem_size, tune_params_keys, tune_params, objective, cache}`; an
entry of `cache` holds a configuration, its `time` and `times` in ms, or the name of an error in their place.
A cache that was still being written lacks its last two braces. Ours carry what Kernel Tuner has no word for
(the six statuses, params that are inactive, lower bounds) under the key `evoflash`, which it ignores. T4
results are a search's evaluations of one family. A space that was recorded of our families gets from them
what a search knows of its space.
"""

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.kernels.family import load_family
from evoflash.perf_model import proportions_on
from evoflash.problem import parse_problem
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.space import Genome, Param, Value, is_among
from evoflash.specs import load_gpu

Json = dict[str, Any]

_VERSION = "1.0.0"
# T4 has no word for a kernel that looked right and was too slow to be proven: it must not be read as correct.
_WORDS = {Status.SCREENED: Status.TIMEOUT, Status.UNMEASURED: Status.RUNTIME}


def t4_results(params: Sequence[Param], evaluations: Sequence[Evaluation]) -> Json:
    """The content of a results file; times are in milliseconds, as T4's."""
    return {"schema_version": _VERSION, "results": [_result(params, each) for each in evaluations]}


def _result(params: Sequence[Param], evaluation: Evaluation) -> Json:
    values, is_timed = evaluation.genome.as_dict(), evaluation.learnt_us is not None
    inactive = [param.name for param in params if param.name not in values]
    return {
        "configuration": {param.name: values.get(param.name, param.values[0]) for param in params},
        "objectives": ["time"],
        "times": {
            "compilation_time": 1e3 * sum(build.compile_s for build in evaluation.builds),
            "runtimes": [timing.median_us / 1e3 for timing in evaluation.timings],
        },
        "invalidity": _WORDS.get(evaluation.status, evaluation.status).value,
        "correctness": float(evaluation.is_correct),
        "measurements": [_time(evaluation)] if is_timed else [],
        "evoflash": {
            "genome": evaluation.genome.id,
            "family": evaluation.genome.family,
            "problem": evaluation.problem,
            "gpu": evaluation.gpu,
            "status": evaluation.status.value,
            "rung": evaluation.rung.value,
            "reason": evaluation.reason,
            "basis": evaluation.basis.value,
            "model_version": evaluation.model_version,
            "inactive": inactive,
        },
    }


def _time(evaluation: Evaluation) -> Json:
    return {"name": "time", "value": (evaluation.learnt_us or 0.0) / 1e3, "unit": "ms"}


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


_GZIP = b"\x1f\x8b"
_ERRORS = {
    "InvalidConfig": (Status.CONSTRAINTS, Rung.CHECKS),
    "CompilationFailedConfig": (Status.COMPILE, Rung.COMPILE),
    "RuntimeFailedConfig": (Status.RUNTIME, Rung.SMOKE),
    "ErrorConfig": (Status.RUNTIME, Rung.SMOKE),
}
_T4_RUNGS = {
    Status.CONSTRAINTS: Rung.CHECKS,
    Status.COMPILE: Rung.COMPILE,
    Status.RUNTIME: Rung.SMOKE,
    Status.TIMEOUT: Rung.SMOKE,
    Status.CORRECTNESS: Rung.CORRECTNESS,
}
_NO_TIME_MS = 1e19  # Kernel Tuner before 1.0 wrote 1e20 for a configuration that failed
_US = {"s": 1e6, "seconds": 1e6, "ms": 1e3, "milliseconds": 1e3, "miliseconds": 1e3, "us": 1.0, "ns": 1e-3}


def read_recording(path: Path) -> Recording:
    """A recorded space from a Kernel Tuner cache or T4 file, plain or gzip.

    UsageError, naming the file, when it cannot be read or is neither.
    """
    try:
        data = _parse(_text(path))
        if isinstance(data.get("cache"), dict):
            return with_family(_from_cache(data))
        if isinstance(data.get("results"), list):
            return with_family(_from_t4(data, path))
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is no whole Kernel Tuner record ({what}): give another file.") from None
    raise UsageError(f"{path} is no Kernel Tuner record: give a cache file or T4 results, plain or gzip.")


def shipped_spaces() -> tuple[Path, ...]:
    """The files of two small recorded spaces that are shipped; spaces/README.md says whose they are."""
    return tuple(sorted((Path(__file__).parent / "spaces").glob("*.json.gz")))


def _text(path: Path) -> str:
    try:
        stored = path.read_bytes()
        return (gzip.decompress(stored) if stored.startswith(_GZIP) else stored).decode()
    except (EOFError, gzip.BadGzipFile, UnicodeDecodeError):
        raise UsageError("neither text nor whole gzip: give a Kernel Tuner cache file.") from None
    except OSError as error:
        raise UsageError(f"{error.strerror}: give the path of a Kernel Tuner cache file.") from None


def _parse(text: str) -> Json:
    text = text.strip()
    for whole in (text, text.removesuffix(",") + "}\n}"):
        try:
            data = json.loads(whole)
        except json.JSONDecodeError:
            continue
        if isinstance(data, dict):
            return data
    raise UsageError("no JSON object: give a Kernel Tuner cache file or T4 results.")


# ---- caches in


def _from_cache(data: Json) -> Recording:
    ours = data.get("evoflash", {})
    names = data["tune_params_keys"]
    params = [Param(name, _distinct(data["tune_params"][name])) for name in names]
    family, version = ours.get("family", data["kernel_name"]), ours.get("version", 1)
    outcomes: dict[Genome, RecordedOutcome] = {}
    for key, entry in data["cache"].items():
        genome = _genome(family, version, params, entry, key)
        if genome in outcomes:
            raise UsageError(f"cache entry '{key}' stands there twice: remove one.")
        outcomes[genome] = _outcome(entry)
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
    )


def _words(size: object) -> str:
    return "x".join(map(str, size)) if isinstance(size, list | tuple) else str(size)


def _distinct(values: list[object]) -> tuple[Value, ...]:
    # In the file's order. 1, 1.0 and true are equal in Python, and different values of a param.
    return tuple({(type(v), v): v for v in map(_value, values)}.values())


def _value(value: object) -> Value:
    # Genes are numbers without a fraction, switches and words: a fraction becomes a word.
    if isinstance(value, float):
        return int(value) if value.is_integer() else repr(value)
    if isinstance(value, bool | int | str):
        return value
    raise UsageError(f"{value!r} is not a value that a param can have: use numbers, booleans or strings.")


def _genome(family: str, version: int, params: list[Param], entry: Json, key: str) -> Genome:
    inactive = entry.get("evoflash", {}).get("inactive", ())
    values = {param.name: _value(entry[param.name]) for param in params if param.name not in inactive}
    for param in params:
        if param.name in values and not is_among(values[param.name], param.values):
            raise UsageError(f"cache entry '{key}': {param.name}={values[param.name]} is not in tune_params.")
    return Genome(family, version, tuple(sorted(values.items())))


def _outcome(entry: Json) -> RecordedOutcome:
    compile_s = float(entry.get("compile_time") or 0) / 1e3
    ours = entry.get("evoflash")
    times_us = tuple(1e3 * float(time) for time in entry.get("times", ()))
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
    time = entry["time"]
    error = entry.get("__error__", time if isinstance(time, str) else None)
    if error is not None:
        status, rung = _ERRORS.get(error, _ERRORS["ErrorConfig"])
        return RecordedOutcome(status, rung, str(error), compile_s=compile_s)
    if not _is_time(time):
        return RecordedOutcome(
            Status.RUNTIME, Rung.TIMING, f"the recorded time is {time}", compile_s=compile_s
        )
    return RecordedOutcome(Status.CORRECT, Rung.DONE, "", 1e3 * time, times_us, compile_s=compile_s)


def _is_time(time: object) -> bool:
    return isinstance(time, int | float) and math.isfinite(time) and 0 < time < _NO_TIME_MS


# ---- T4 in


def _from_t4(data: Json, path: Path) -> Recording:
    results = data["results"]
    names = list(results[0]["configuration"]) if results else []
    found = {name: _distinct([result["configuration"][name] for result in results]) for name in names}
    params = [Param(name, tuple(sorted(found[name], key=_by_size))) for name in names]
    family = path.name.split(".")[0]
    outcomes = {_genome(family, 1, params, _t4_entry(r), ""): _t4_outcome(r) for r in results}
    return Recording(recorded_space(family, params, outcomes), problem=family, device="unknown")


def _t4_entry(result: Json) -> Json:
    """The configuration as a cache's entry has it, with what evoflash says of inactive params."""
    return {**result["configuration"], "evoflash": result.get("evoflash", {})}


def _by_size(value: Value) -> tuple[bool, float, str]:
    # T4 lists no params, only configurations: numbers go in their order, so that neighbours are adjacent.
    return isinstance(value, str), 0.0 if isinstance(value, str) else float(value), str(value)


def _t4_outcome(result: Json) -> RecordedOutcome:
    status = Status(result["invalidity"])
    times = result.get("times", {})
    compile_s = float(times.get("compilation", times.get("compilation_time")) or 0) / 1e3
    if status is not Status.CORRECT:
        ours = result.get("evoflash", {})
        rung = Rung(ours["rung"]) if ours else _T4_RUNGS[status]
        return RecordedOutcome(status, rung, ours.get("reason", ""), compile_s=compile_s)
    objective = (result.get("objectives") or ["time"])[0]
    measured = next(m for m in result["measurements"] if m["name"] == objective)
    us = _US.get(measured.get("unit") or "ms")
    if us is None or not _is_time(measured["value"]):
        raise UsageError(f"the objective '{objective}' is no time: only recorded times can be replayed.")
    runtimes_us = tuple(1e3 * float(time) for time in times.get("runtimes", ()))
    return RecordedOutcome(
        Status.CORRECT, Rung.DONE, "", us * measured["value"], runtimes_us, compile_s=compile_s
    )


# ---- caches out


def write_recording(path: Path, recording: Recording) -> None:
    """Write a cache file that Kernel Tuner reads and read_recording reads back whole; .gz compresses."""
    text = cache_text(recording).encode()
    # Without a time stamp equal recordings are equal files.
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def cache_text(recording: Recording) -> str:
    """The cache as Kernel Tuner lays it out: the head indented, one line per configuration."""
    space = recording.space
    head = {
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
