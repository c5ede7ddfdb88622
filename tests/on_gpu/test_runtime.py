"""Exported kernels on the GPU: the launcher in a Python without evoflash, attention.py with CuPy's arrays."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from exported_cases import CASES, exported
from places import ROOT, TESTS

from evoflash.exports import one_file
from evoflash.exports.cubin import write_artefact
from evoflash.exports.launch_json import artefact
from evoflash.operations.expectations import thresholds_of
from evoflash.specs import load_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

LIMIT_S = 300
# Each case is a Python of its own that loads PyTorch. These have all that a description can say between them.
FEW = ("plain", "workspace and two launches", "tensor maps and a cluster", "dynamic and zeroed")
# No shipped family's blocks wait for one another or overlap another launch: a plain kernel launched so.
ATTRIBUTES = {"resident": ("plain", {"resident": True}), "dependent": ("plain", {"dependent": True})}


@pytest.fixture(scope="module")
def here(spec):
    if spec.arch != load_gpu("h200").arch:
        pytest.skip(f"the cases are for sm_90a, this is {spec.arch}")


def without_evoflash(folder: Path, kernel: Path) -> dict[str, list[float]]:
    """What without_evoflash.py says, run from a folder that has nothing but it and the launcher."""
    shutil.copy(TESTS / "on_gpu" / "without_evoflash.py", folder)
    shutil.copytree(ROOT / "evoflash" / "runtime", folder / "runtime")
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, str(folder / "without_evoflash.py"), str(kernel)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=variables,
        cwd=folder,
    )
    if "No module named 'torch'" in done.stderr:
        pytest.skip("needs PyTorch outside of PYTHONPATH")
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def changed(made, changes):
    ((arch, image),) = made.description["images"].items()
    launches = [{**launch, **changes} for launch in image["launches"]]
    return replace(made, description={**made.description, "images": {arch: {**image, "launches": launches}}})


OTHERS = [pytest.param(name, marks=pytest.mark.full) for name in CASES if name not in FEW]


@pytest.mark.parametrize("name", [*FEW, *ATTRIBUTES, *OTHERS])
def test_the_launcher_computes_attention_without_evoflash(name, here, tmp_path):
    case_name, changes = ATTRIBUTES.get(name, (name, {}))
    case = exported(case_name)
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    write_artefact(changed(artefact(case), changes), kernel)
    limits = thresholds_of(case.problem.workloads[0])

    found = without_evoflash(tmp_path, kernel)

    assert len(found) == 21
    wrong = {
        way: errors
        for way, errors in found.items()
        if not (errors[0] <= limits.rel_l2 and errors[1] <= 2e-3 and errors[2] == 0)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", ["plain", "splits and tensor maps", "dynamic and zeroed"])
def test_attention_py_computes_on_cupy_arrays(name, here, tmp_path):
    import cupy

    case = exported(name)
    path = tmp_path / "attention.py"
    one_file.write_cupy(case, path)
    found = importlib.util.spec_from_file_location("exported_attention", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    w = case.problem.workloads[0]
    rng = np.random.default_rng(3)
    shapes = [(2, 4, 70, w.head_dim), *[(2, 4 // w.gqa_ratio, 90, w.head_dim)] * 2]
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    scores = q.astype(np.float64) @ np.repeat(k, w.gqa_ratio, 1).astype(np.float64).swapaxes(2, 3)
    scores /= np.sqrt(w.head_dim)
    if w.causal:
        scores[..., ~np.tri(70, 90, 20, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    right = weights / weights.sum(-1, keepdims=True) @ np.repeat(v, w.gqa_ratio, 1).astype(np.float64)

    lse = cupy.empty((2, 4, 70), np.float32)
    out = module.attention(*map(cupy.asarray, (q, k, v)), lse=lse).get()
    rows_first = [cupy.asarray(x).transpose(0, 2, 1, 3).copy() for x in (q, k, v)]
    cupy.cuda.runtime.deviceSynchronize()  # the other stream does not wait for the copies
    again = module.attention(*rows_first, layout="bshd", stream=cupy.cuda.Stream(non_blocking=True))
    cupy.cuda.runtime.deviceSynchronize()

    limit = thresholds_of(w).rel_l2
    for got in (out, again.get().transpose(0, 2, 1, 3)):
        assert np.linalg.norm(got - right) <= limit * np.linalg.norm(right)
    expected = np.log(weights.sum(-1)) + scores.max(-1)
    assert np.abs(lse.get() - expected).max() <= 2e-3


def test_attention_py_refuses_an_array_of_the_host(here, tmp_path):
    path = tmp_path / "attention.py"
    one_file.write_cupy(exported("plain"), path)
    found = importlib.util.spec_from_file_location("exported_attention", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    on_host = np.zeros((2, 4, 100, 64), np.float16)

    with pytest.raises(module.Refused, match="q"):
        module.attention(on_host, on_host, on_host)
