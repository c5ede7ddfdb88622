"""Tests that need a GPU: `pytest -m gpu tests/on_gpu` runs them; without one they say so and are skipped."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from evoflash.errors import EvoflashError
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.process.warm_up import prepare_finals
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import IsolatedPool
from scripts.validation.exports import CASES, PROBLEM, build

SMALLER = PROBLEM.replace("h=32,hkv=8", "h=8,hkv=2")  # a program's own right answers take seconds of a core


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


@pytest.fixture(scope="session")
def programs(spec, tmp_path_factory):
    """The exported programs by their cases' names, in the making: nvcc takes a core for seconds each."""
    folder = tmp_path_factory.mktemp("exports")
    with ThreadPoolExecutor(len(CASES)) as threads:
        yield {case.name: threads.submit(build, case, spec, folder, problem=SMALLER) for case in CASES}


@pytest.fixture(scope="session")
def libraries(spec):
    """A process for all libraries, as in a search's finals: each start of PyTorch takes seconds."""
    with IsolatedPool(1) as pool:
        pool.submit(prepare_finals, (), 0, timeout_s=300)
        yield pool


@pytest.fixture(scope="session", autouse=True)
def begun_before_the_first_test(request):
    """What needs nothing of the GPU is made beside the tests that come before the one that asks for it; but
    not by several processes, which run other files meanwhile.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    wanted = {name for item in request.session.items for name in item.fixturenames}
    for name in ("libraries", *(["programs"] if shutil.which("nvcc") else [])):
        if name in wanted:
            request.getfixturevalue(name)
