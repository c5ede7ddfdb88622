"""Tests that need a GPU: `pytest -m gpu tests/gpu` runs them; without one they say so and are skipped."""

import pytest

from evoflash.cuda.launcher import present_gpu, spec_of
from evoflash.errors import EvoflashError
from evoflash.gpu_process.worker import GpuWorker


@pytest.fixture(scope="session")
def spec():
    try:
        return spec_of(present_gpu())
    except EvoflashError as error:
        pytest.skip(f"needs a GPU ({error})")


@pytest.fixture(scope="session")
def worker(spec):
    with GpuWorker() as made:
        yield made


@pytest.fixture(scope="session")
def cubins(tmp_path_factory):
    return tmp_path_factory.mktemp("cubins")
