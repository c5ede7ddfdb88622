"""Kernel Tuner's strategies on a recorded space in its own simulation mode, beside our strategies.

The record is written as a cache that Kernel Tuner reads, with the genes that vary alone and the recorded
configurations as its restriction, so that its strategies, as ours, stay among what is recorded. A strategy's
options are Kernel Tuner's defaults. Uses nothing of ours but the file format.
"""

import contextlib
import io
import json
import math
import random
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.replay.recorded_space import Recording
from evoflash.space import Param, Value

_KERNEL = "recorded"
_Key = tuple[Value, ...]


def run_strategy(recording: Recording, name: str, budget: int, seed: int) -> Sequence[float]:
    """The time in us of each distinct recorded configuration that a strategy found, infinite for failures."""
    params = [param for param in recording.space.params if len(param.values) > 1]
    times_us = _times(recording, params)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.json"
        path.write_text(json.dumps(_cache(recording, params, times_us)), encoding="utf-8")
        results = _tuned(params, set(times_us), path, strategy=name, budget=budget, seed=seed)
    found: dict[_Key, float] = {}
    for result in results:
        key = tuple(result[param.name] for param in params)
        if key in times_us:
            found.setdefault(key, times_us[key])
    return list(found.values())[:budget]


def _times(recording: Recording, params: Sequence[Param]) -> Mapping[_Key, float]:
    found = {}
    for genome, outcome in recording.space.outcomes.items():
        values = genome.as_dict()
        key = tuple(values.get(param.name, param.values[0]) for param in params)
        is_timed = outcome.score_us is not None and not outcome.is_lower_bound
        found[key] = outcome.score_us if is_timed and outcome.score_us is not None else math.inf
    return found


def _cache(recording: Recording, params: Sequence[Param], times_us: Mapping[_Key, float]) -> dict[str, Any]:
    names = [param.name for param in params]
    spent = {"compile_time": 0, "verification_time": 0, "benchmark_time": 0}
    spent |= {"strategy_time": 0, "framework_time": 0}
    entries = {}
    for key, us in times_us.items():
        time: dict[str, Any] = {"time": us / 1e3, "times": [us / 1e3]}
        if not math.isfinite(us):
            time = {"time": "RuntimeFailedConfig", "__error__": "RuntimeFailedConfig"}
        entries[",".join(map(str, key))] = dict(zip(names, key, strict=True)) | time | spent
    return {
        "device_name": recording.device,
        "kernel_name": _KERNEL,
        "problem_size": [1],
        "tune_params_keys": names,
        "tune_params": {param.name: list(param.values) for param in params},
        "objective": "time",
        "cache": entries,
    }


def _tuned(
    params: Sequence[Param], valid: set[_Key], path: Path, *, strategy: str, budget: int, seed: int
) -> Sequence[Mapping[str, Any]]:
    import kernel_tuner
    from constraint import FunctionConstraint

    random.seed(seed)
    np.random.seed(seed)  # what its strategies draw from
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        results, _ = kernel_tuner.tune_kernel(
            _KERNEL,
            "",
            [1],
            [],
            {param.name: list(param.values) for param in params},
            restrictions=[FunctionConstraint(lambda *values: tuple(values) in valid)],
            block_size_names=["-", "-", "-"],
            simulation_mode=True,
            cache=str(path),
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            quiet=True,
            lang="CUDA",
            objective="time",
        )
    return list(results)
