"""The emulator and the GPU agree on every primitive in all its modes; approximations within their error."""

import pytest

from evoflash.trust.conformance.cases import primitives
from evoflash.trust.conformance.run import check_primitives

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns]


@pytest.fixture(scope="session")
def found(spec):
    """All of them at once, in processes of their own; kernels that hang cannot make it take longer."""
    return {each.primitive: each for each in check_primitives(time_limit_s=900.0).primitives}


@pytest.mark.parametrize("entry", primitives(), ids=lambda entry: entry.name)
def test_the_emulator_and_the_gpu_agree(entry, found, spec):
    if not entry.runs_on(spec.arch):
        pytest.skip(f"needs {entry.arch}, this GPU is {spec.arch}")
    summary = found[entry.name]

    assert summary.failures == ()
    assert summary.not_run == 0
    assert summary.equal == summary.cases == len(list(entry.cases()))
