"""Kernels of the linear layer through FlashInfer's own function on the GPU: right, and in CUDA graphs."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from exported_cases import exported
from places import ROOT

from evoflash.exports import flashinfer_trace
from evoflash.specs import load_gpu


def has_traces():
    """Whether FlashInfer is there, in a version that runs solutions of traces; it is not imported."""
    found = importlib.util.find_spec("flashinfer")
    folders = found.submodule_search_locations if found else None
    return any(next(Path(folder).glob("trace_apply*"), None) for folder in folders or ())


pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (importlib.util.find_spec("torch") and has_traces()),
        reason="needs PyTorch and FlashInfer's traces",
    ),
]
MOST_ERROR = 3e-3  # against double precision; FlashInfer's own, which rounds x to 8 bits, is off by 2.5e-2
LIMIT_S = 600  # FlashInfer compiles its own kernel when it is first called


def test_an_unmodified_flashinfer_runs_the_kernel_and_it_is_right(spec, tmp_path):
    if spec.arch != load_gpu("h200").arch:
        pytest.skip(f"FlashInfer's function is for sm_90a, this is {spec.arch}")
    folder = tmp_path / "flashinfer-trace"
    flashinfer_trace.write(exported("rows of W"), folder)
    words = [sys.executable, "-m", "scripts.peers.through_flashinfer", str(folder), "--rows", "1,2,3,8"]

    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert ended.returncode == 0, ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    assert [each["m"] for each in found] == [1, 2, 3, 8]
    assert max(each["ours_rel_l2"] for each in found) < MOST_ERROR
