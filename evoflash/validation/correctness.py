"""Is a kernel right on a workload? Every trial against the reference, then the oracles; no GPU here.

The kernel is any function of a trial: a launch on a GPU, a run in the emulator, NumPy in a test.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from evoflash.evaluation import Verdict
from evoflash.problem import Workload
from evoflash.validation import metamorphic
from evoflash.validation.inputs import ALL, Trial, draw
from evoflash.validation.reference import Expected, every_row, expect
from evoflash.validation.validator import Kernel, Output, judge

_ORACLES = 0x4F52  # a random stream of their own


def scrutinise(
    run: Kernel,
    workload: Workload,
    *,
    seed: int,
    is_deterministic: bool = True,
    trials: Sequence[str] = ALL,
) -> Verdict:
    """The trials of those names at every row, then the oracles on the first of them; stops at what is wrong.

    The verdict's reason names the trial or the oracle, and the place. `is_deterministic`: two runs must agree
    in every bit.
    """
    cases = [case(workload, name, seed) for name in trials]
    first = cases[0][0]
    outputs: dict[str, Output] = {}

    def remembering(trial: Trial) -> Output:
        # The oracles begin with the first trial's output, which is there already.
        if trial is not first:
            return run(trial)
        if "first" not in outputs:
            outputs["first"] = run(trial)
        return outputs["first"]

    verdict = judge(workload, ((trial, expected, remembering(trial)) for trial, expected in cases))
    if not verdict.passed:
        return verdict
    reason = metamorphic.repeats(run, first) if is_deterministic else ""
    reason = reason or without_reference(remembering, first, workload, seed=seed)
    return replace(verdict, passed=not reason, reason=reason)


def without_reference(run: Kernel, trial: Trial, workload: Workload, *, seed: int) -> str:
    """The first complaint of the oracles, the cheapest of them first; empty when they have none."""
    given: dict[str, Any] = {"workload": workload}
    drawn = given | {"rng": np.random.default_rng([seed, _ORACLES])}
    general = (
        lambda: metamorphic.averages_without_queries(run, trial, **given),
        lambda: metamorphic.keeps_heads_apart(run, trial, **drawn),
        lambda: metamorphic.is_linear_in_values(run, trial, **drawn),
        lambda: metamorphic.ignores_shifts(run, trial, **drawn),
        lambda: metamorphic.shares_keys_in_groups(run, trial, **given),
    )
    unmasked = (
        lambda: metamorphic.ignores_order(run, trial, **drawn),
        lambda: metamorphic.ignores_copies(run, trial, **given),
    )
    causal = (lambda: metamorphic.hides_the_future(run, trial, **given),)
    checks = (*general, *(causal if workload.causal else unmasked))
    return next((complaint for check in checks if (complaint := check())), "")


@lru_cache(maxsize=512)
def case(workload: Workload, name: str, seed: int) -> tuple[Trial, Expected]:
    """A trial of a small workload, and what is right at every row; kept, since all candidates meet it."""
    trial = draw(name, workload, seed=seed)
    return trial, expect(workload, trial.q, trial.k, trial.v, where=every_row(workload))
