"""The libraries' paged attention: which is asked when, and that what they are given holds the same keys."""

import sys
import types

import numpy as np
import pytest

from evoflash.gpu import baselines
from evoflash.gpu.baselines import BaselineAbsentError, computing
from evoflash.gpu.baselines.paged_attention import cache_of, flash_attention_3, flashinfer, paged_on
from evoflash.numerics import decode
from evoflash.operations.expectations import every_row
from evoflash.operations.paged.form import scale
from evoflash.operations.paged.inputs import NAMES, draw
from evoflash.operations.paged.reference import expect
from evoflash.operations.paged.workload import parse_workload
from evoflash.problem import parse_problem

SHAPE = "b=5,h=8,hkv=2,sq=1,skv=90,d=64,page=16,dtype=bf16"


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs torch: pip install 'evoflash[baselines]'")


def bench_of(text):
    return types.SimpleNamespace(workload=parse_workload(text))


def test_paged_attention_is_timed_beside_libraries_that_compute_it():
    assert computing("paged_attention", baselines.NAMES) == (
        "fa3_paged",
        "flashinfer_xqa",
        "flashinfer_decode",
    )
    assert not set(computing("attention", baselines.DEFAULT)) & set(
        computing("paged_attention", baselines.NAMES)
    )


@pytest.mark.parametrize("text", [SHAPE, f"{SHAPE},window=20", f"{SHAPE},sink=bf16", f"{SHAPE},ragged"])
@pytest.mark.parametrize("kind", NAMES.at_size[:3])
def test_what_a_library_is_given_holds_the_same_keys_and_no_nan(torch, text, kind):
    workload = parse_workload(text)
    inputs = draw(kind, workload, seed=3)

    cache = cache_of(workload, tuple(_tensor(torch, x) for x in inputs.tensors.values()))

    assert torch.isfinite(cache.k).all()
    assert torch.isfinite(cache.v).all()
    assert ((cache.table >= 0) & (cache.table < len(cache.k))).all()
    right = expect(workload, inputs, where=every_row(workload)).rows["O"].right
    found = _plain(torch, workload, cache).numpy().reshape(right.shape)
    assert np.linalg.norm(found - right) < 1e-2 * np.linalg.norm(right)


def _plain(torch, workload, cache):
    """Attention of what is laid out so, sequence by sequence."""
    w, out = workload, torch.zeros(cache.q.shape, dtype=torch.float64)
    begins = cache.rows.tolist() if w.ragged else list(range(0, w.total_q + 1, w.seq_q))
    for at, keys in enumerate(cache.lengths.tolist()):
        entries = cache.table[at, : -(-keys // w.page)].long()
        k, v = (
            x[entries].flatten(0, 1)[:keys].double().repeat_interleave(w.gqa_ratio, 1)
            for x in (cache.k, cache.v)
        )
        rows = slice(begins[at], begins[at + 1])
        q = cache.q[rows].double()
        scores = torch.einsum("shd,thd->hst", q, k) * scale(w)
        newest = torch.arange(len(q))[:, None] + keys - len(q)
        place = torch.arange(keys)[None]
        hidden = place > newest
        if w.window:
            hidden |= place <= newest - w.window
        scores = scores.masked_fill(hidden, -torch.inf)
        if w.sink:
            sinks = cache.sinks.double()[:, None, None].expand(-1, len(q), 1)
            scores = torch.cat([scores, sinks], -1)
        weights = scores.softmax(-1).nan_to_num(0)[..., :keys]
        out[rows] = torch.einsum("hst,thd->shd", weights, v)
    return out


def _tensor(torch, x):
    if x.dtype == np.uint16:
        return torch.from_numpy(decode(x, "bf16").copy()).bfloat16()
    return torch.from_numpy(x.copy())


@pytest.mark.parametrize(
    ("file", "name"),
    [(flash_attention_3, "fa3_paged"), (flashinfer, "flashinfer_xqa")],
    ids=lambda each: str(each)[-20:],
)
def test_a_library_that_is_not_installed_is_absent_and_says_how_to_get_it(torch, monkeypatch, file, name):
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    monkeypatch.setitem(sys.modules, "flashinfer.decode", None)
    with pytest.raises(BaselineAbsentError, match="pip install"):
        list(file.calls(name, bench_of(SHAPE)))


@pytest.mark.parametrize("text", ["mission", f"{SHAPE},caller=csr"])
def test_a_workload_that_the_libraries_do_not_compute_here_is_refused_with_a_reason(text):
    bench = types.SimpleNamespace(workload=parse_problem(text).workloads[0])
    with pytest.raises(BaselineAbsentError, match=r"paged attention|dense table"):
        paged_on(bench)
