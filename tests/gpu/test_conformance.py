"""The emulator and the GPU agree on every primitive in all its modes; approximations within their error."""

import pytest

from evoflash.conformance.check import check
from evoflash.primitives import primitives

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="session")
def found(spec):
    return {each.primitive: each for each in check().primitives}


@pytest.mark.parametrize("entry", primitives(), ids=lambda entry: entry.name)
def test_the_emulator_and_the_gpu_agree(entry, found, spec):
    if not entry.runs_on(spec.arch):
        pytest.skip(f"needs {entry.arch}, this GPU is {spec.arch}")
    summary = found[entry.name]

    assert summary.failures == ()
    assert summary.equal == summary.cases == len(list(entry.cases()))
