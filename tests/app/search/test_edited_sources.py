"""The frauds of the self-test, each offered as an edit of a kernel: refused, or found by the judge."""

from dataclasses import replace

import pytest

from evoflash.app.search.edited_sources import kernel_source, source_judge
from evoflash.evaluation import Status
from evoflash.kernels.family import load_family
from evoflash.problem import Problem
from evoflash.specs import load_gpu
from evoflash.trust.selftest.corpus import build_fraud, corpus

GPU = load_gpu("h100")
# Those that no run of the emulator shows are for the GPU's own rungs.
FRAUDS = {f"{each.kernel.name}: {each.name}": each for each in corpus() if not each.launch}
CHEAPEST = "wmma: wrong leading dimension"
EMULATED = [name for name, fraud in FRAUDS.items() if not (fraud.is_control or fraud.emulated.skip)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == CHEAPEST else pytest.mark.full) for name in EMULATED],
)
def test_a_fraud_offered_as_an_edit_reaches_no_gpu(name: str) -> None:
    fraud = FRAUDS[name]
    problem = Problem((fraud.kernel.problem,))
    honest, _ = build_fraud(replace(fraud, patch=()), GPU)
    child = replace(honest.genome, edits=fraud.patch)
    source = kernel_source(problem, GPU, load_family(child.family))
    if source.complaint(child, honest.genome) is None:
        failure = source_judge(problem, GPU)(child, 1).failure
        assert failure is not None
        assert failure.status is not Status.CORRECT
        assert failure.reason
