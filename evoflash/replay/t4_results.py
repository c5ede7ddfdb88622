"""Writes a search's evaluations as T4 results, and reads those of any tuner as a recorded space.

T4 is the results format of Kernel Tuner and KTT. It has no word for who recorded what, on which GPU, and for
times that a model estimated: each result of ours has these under the key `evoflash`, and an estimate is a
measurement called `estimated_time`, which no other reader takes for a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.replay.foreign_records import (
    ABSENT,
    Json,
    check_digest,
    digest_of,
    distinct,
    genome_of,
    value_of,
)
from evoflash.replay.foreign_times import (
    RecordedTime,
    is_time,
    time_of_results,
    words_of,
)
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.space import Genome, Param, Value

_VERSION = "1.0.0"
TIME, ESTIMATED_TIME = "time", "estimated_time"  # measurements
# T4 has no word for a kernel that looked right and was too slow to be proven: it must not be read as correct.
_WORDS = {Status.SCREENED: Status.TIMEOUT, Status.UNMEASURED: Status.RUNTIME}
_RUNGS = {
    Status.CONSTRAINTS: Rung.CHECKS,
    Status.COMPILE: Rung.COMPILE,
    Status.RUNTIME: Rung.SMOKE,
    Status.TIMEOUT: Rung.SMOKE,
    Status.CORRECTNESS: Rung.CORRECTNESS,
}
_SAME_IN_ALL = ("family", "family_version", "problem", "gpu", "basis")


# ---- out


def t4_results(
    params: Sequence[Param],
    evaluations: Sequence[Evaluation],
    made_with: Mapping[str, str],
    *,
    run: int | None = None,
) -> Json:
    """The content of a results file; times are in milliseconds, as T4's. `made_with`, named by each result,
    is of the run, as is its number in the database.
    """
    of_run = {"run": run, "made_with": dict(made_with)}
    noted = {name: value for name, value in of_run.items() if value}
    return {
        "schema_version": _VERSION,
        "results": [_result(params, each, noted) for each in evaluations],
    }


def _result(params: Sequence[Param], evaluation: Evaluation, of_run: Json) -> Json:
    values, is_timed = evaluation.genome.as_dict(), evaluation.learnt_us is not None
    inactive = [param.name for param in params if param.name not in values]
    name = ESTIMATED_TIME if evaluation.is_estimate else TIME
    runtimes = [] if evaluation.is_estimate else [each.median_us / 1e3 for each in evaluation.timings]
    time = {"name": name, "value": (evaluation.learnt_us or 0.0) / 1e3, "unit": "ms"}
    result: Json = {
        "configuration": {param.name: values.get(param.name, param.values[0]) for param in params},
        "objectives": [name],
        "times": {
            "compilation_time": 1e3 * sum(build.compile_s for build in evaluation.builds),
            "runtimes": runtimes,
        },
        "invalidity": _WORDS.get(evaluation.status, evaluation.status).value,
        "correctness": float(evaluation.is_correct),
        "measurements": [time] if is_timed else [],
        "evoflash": {
            "genome": evaluation.genome.id,
            "family": evaluation.genome.family,
            "family_version": evaluation.genome.version,
            "problem": evaluation.problem,
            "gpu": evaluation.gpu,
            "status": evaluation.status.value,
            "rung": evaluation.rung.value,
            "reason": evaluation.reason,
            "basis": "estimated" if evaluation.is_estimate else evaluation.basis.value,
            "model_version": evaluation.model_version,
            "score_us": evaluation.learnt_us,  # dividing by 1000 and multiplying again is not exact
            "is_lower_bound": evaluation.is_censored,
            "inactive": inactive,
            **of_run,
        },
    }
    result["evoflash"]["digest"] = digest_of(result)
    return result


# ---- in


def from_t4(data: Json, path: Path) -> Recording:
    """T4 results as a recorded space. UsageError for numbers that do not say what they are."""
    results = data["results"]
    for result in results:
        _check_result(result)
    ours = _facts(results)
    params = _params(results)
    family, version = str(ours.get("family", path.name.split(".")[0])), int(ours.get("family_version", 1))
    given = data.get("metadata") or {}
    if not isinstance(given, dict):
        raise UsageError("its metadata is no object of names and values: take it out.")
    metadata = {str(name).lower(): value for name, value in given.items()}
    timed = [result for result in results if _status(result) in (Status.CORRECT, Status.SCREENED)]
    known = [result for result in timed if "score_us" not in result.get("evoflash", {})]
    unit = metadata.get("timeunit") or metadata.get("time_unit")
    time = None
    if known:
        timeunit = None if unit is None else str(unit)
        time = time_of_results(known, timeunit=timeunit, heads=(data, metadata))
    outcomes: dict[Genome, RecordedOutcome] = {}
    repeated = 0
    for result in results:
        genome = genome_of((family, version), params, _configuration(result, params), _inactive(result))
        outcome = _outcome(result, time)
        if outcomes.setdefault(genome, outcome) != outcome:
            raise UsageError(
                f"the configuration {words_of(result)} stands there twice, with different outcomes: "
                "remove one."
            )
        repeated += outcomes[genome] is not outcome
    basis = Basis(ours.get("basis", Basis.MEASURED))
    models = sorted({str(each["evoflash"].get("model_version") or "unknown") for each in results if ours})
    again = f"{repeated} results repeat a configuration that was read before, with the same outcome."
    remarks = (*(time.remarks if time else ()), *([again] if repeated else []))
    return Recording(
        recorded_space(family, params, outcomes, version=version),
        problem=str(ours.get("problem", family)),
        device=str(ours.get("gpu") or metadata.get("device") or metadata.get("gpu") or "unknown"),
        basis=basis,
        model_version=", ".join(models) if basis is Basis.ESTIMATED else "",
        notes=_made_with(results),
        remarks=remarks,
    )


def _check_result(result: Any) -> None:
    if not isinstance(result, dict) or not isinstance(result.get("configuration"), dict):
        raise UsageError("a result has no configuration: give whole T4 results.")
    ours = result.get("evoflash")
    if isinstance(ours, dict):
        rest = {**result, "evoflash": {name: value for name, value in ours.items() if name != "digest"}}
        check_digest(ours.get("digest"), rest, f"the result {words_of(result)}")


def _facts(results: Sequence[Json]) -> Json:
    """What evoflash noted of all of them; nothing for other tuners' results. UsageError where they differ."""
    noted = [result.get("evoflash") or {} for result in results]
    facts = [{name: each[name] for name in _SAME_IN_ALL if name in each} for each in noted]
    for name in _SAME_IN_ALL:
        if len(found := {str(each.get(name)) for each in facts}) > 1:
            words = " and ".join(sorted(found))
            raise UsageError(f"its results differ in {name} ({words}): a file has one of it; split the file.")
    return facts[0] if facts else {}


def _made_with(results: Sequence[Json]) -> Mapping[str, str]:
    return next(
        (each["evoflash"]["made_with"] for each in results if "made_with" in each.get("evoflash", {})), {}
    )


def _params(results: Sequence[Json]) -> list[Param]:
    # T4 lists no params, only configurations: numbers go in their order, so that neighbours are adjacent.
    names = list(dict.fromkeys(name for result in results for name in result["configuration"]))
    found = {
        name: distinct(_or_absent(result["configuration"].get(name)) for result in results) for name in names
    }
    return [Param(name, tuple(sorted(found[name], key=_by_size))) for name in names]


def _configuration(result: Json, params: Iterable[Param]) -> Json:
    return {param.name: _or_absent(result["configuration"].get(param.name)) for param in params}


def _or_absent(value: object) -> Value:
    return ABSENT if value is None else value_of(value)


def _inactive(result: Json) -> Sequence[str]:
    return tuple((result.get("evoflash") or {}).get("inactive", ()))


def _by_size(value: Value) -> tuple[bool, float, str]:
    return isinstance(value, str), 0.0 if isinstance(value, str) else float(value), str(value)


def _status(result: Json) -> Status:
    """UsageError for a result that does not say how it ended."""
    ours = result.get("evoflash") or {}
    word = str(ours.get("status", result.get("invalidity"))).lower()
    if word not in (set(Status) if ours else {*_RUNGS, Status.CORRECT}):
        known = ", ".join((Status.CORRECT, *_RUNGS))
        raise UsageError(f"the result {words_of(result)} has the invalidity '{word}': use one of {known}.")
    status = Status(word)
    verdict = result.get("correctness", 1)
    if verdict is not None and not isinstance(verdict, int | float):
        raise UsageError(
            f"the result {words_of(result)} has the correctness '{verdict}': use a number from 0 to 1."
        )
    # A verdict below 1 is no correct kernel, whatever else is said.
    is_wrong = verdict is not None and not verdict >= 1
    return Status.CORRECTNESS if status is Status.CORRECT and is_wrong else status


def _outcome(result: Json, time: RecordedTime | None) -> RecordedOutcome:
    status, ours = _status(result), result.get("evoflash") or {}
    times = result.get("times") or {}
    spent = times.get("compilation", times.get("compilation_time"))
    compile_s = float(spent) / 1e3 if is_time(spent) else 0.0
    if status not in (Status.CORRECT, Status.SCREENED):
        rung = Rung(ours["rung"]) if "rung" in ours else _RUNGS.get(status, Rung.TIMING)
        return RecordedOutcome(status, rung, str(ours.get("reason", "")), compile_s=compile_s)
    if "score_us" in ours:
        launches = tuple(1e3 * each for each in times.get("runtimes") or () if is_time(each))
        known_us, bound = ours["score_us"], bool(ours.get("is_lower_bound"))
        rung, reason = Rung(ours.get("rung", Rung.DONE)), str(ours.get("reason", ""))
        return RecordedOutcome(status, rung, reason, known_us, launches, bound, compile_s)
    assert time is not None  # made of every timed result whose exact time is not noted
    if not is_time(us := time.us(result)):
        return RecordedOutcome(Status.RUNTIME, Rung.TIMING, f"the recorded time is {us}", compile_s=compile_s)
    return RecordedOutcome(status, Rung.DONE, "", float(us), time.launches(result), compile_s=compile_s)
