"""`evoflash portfolio` on a real GPU: a small table is measured, kernels are judged, the package computes."""

import json
import subprocess
import sys

import pytest
from places import ROOT
from portfolio_cases import needs_torch

from evoflash.app.portfolio.table import read_table

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns, pytest.mark.slow]

MIX = """\
b=1,h=8,hkv=2,s=256,d=64,causal weight=2
b=1,h=8,hkv=2,s=1024,d=64,causal
b=4,h=8,hkv=2,sq=1,skv=2048,d=64
"""
USE = """
import site
import sys
sys.modules["evoflash"] = None
site.addsitedir(sys.argv[1])
import torch
from fast_attention import attention
for b, sq, skv, causal in ((1, 256, 256, True), (1, 1024, 1024, True), (4, 1, 2048, False)):
    q = torch.randn(b, 8, sq, 64, dtype=torch.float16, device="cuda")
    k, v = (torch.randn(b, 2, skv, 64, dtype=torch.float16, device="cuda") for _ in "kv")
    right = torch.nn.functional.scaled_dot_product_attention(
        q.float(), k.float(), v.float(), is_causal=causal, enable_gqa=True
    )
    got = attention(q, k, v, causal=causal, fallback=False).float()
    assert (got - right).norm() <= 2e-3 * right.norm(), (b, sq, skv)
print("fine")
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("portfolio")
    (folder / "mix.txt").write_text(MIX)
    words = ["--problems", str(folder / "mix.txt"), "--table", str(folder / "t.json"), "--candidates", "6"]
    words += ["--kernels", "2", "--minutes", "1", "--export", str(folder / "fast_attention"), "--json"]
    command = [sys.executable, "-m", "evoflash", "portfolio", *words, "--db", str(folder / "none.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def test_every_shape_gets_a_kernel_whose_output_was_judged_there(found):
    _, told = found

    assert told["basis"] == "measured"
    assert all(shape["time"]["is_checked"] and not shape["time"]["is_rough"] for shape in told["shapes"])


def test_every_shape_beside_a_border_is_timed(found):
    _, told = found

    assert all(border["us"] is not None for border in told["borders"])


def test_the_table_holds_what_was_reported(found):
    folder, told = found
    table = read_table(folder / "t.json")

    for shape in told["shapes"]:
        row = next(row for row in table.rows if str(row.workload) == shape["problem"])
        assert row.times[shape["kernel"]].us == shape["time"]["us"]


@needs_torch
def test_the_package_computes_in_a_python_without_evoflash(found):
    folder, _ = found
    command = [sys.executable, "-I", "-c", USE, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.stdout == "fine\n", done.stderr
