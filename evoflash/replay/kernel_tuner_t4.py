"""Kernel Tuner's T4 results out: a search's evaluations of one family. kernel_tuner.py reads them back.

T4 has all params in every configuration: one that is inactive in a genome has its first value there, and is
named under `evoflash`, which other readers pass over.
"""

from collections.abc import Sequence
from typing import Any

from evoflash.evaluation import Evaluation, Status
from evoflash.space import Param

Json = dict[str, Any]

_VERSION = "1.0.0"
# T4 has no word for a kernel that looked right and was too slow to be proven: it must not be read as correct.
_WORDS = {Status.SCREENED: Status.TIMEOUT}


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
