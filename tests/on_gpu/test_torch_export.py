"""Exports for PyTorch on the GPU, in a Python that cannot import evoflash: scripts/exports/on_gpu does the
work.

The archive's kernels of an H200; another GPU skips. Times are judged nowhere here:
scripts.exports.measure reports them.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from scripts.exports.measure import export_all, run  # noqa: E402

pytestmark = pytest.mark.gpu
PARTS = "numbers", "profile", "sdpa", "model"


@pytest.fixture(scope="module")
def folder(spec, tmp_path_factory):
    if spec.name != "h200":
        pytest.skip("the archive's exports are of an H200")
    made = tmp_path_factory.mktemp("exports")
    workloads = export_all(made, spec.name)
    (made / "workloads.json").write_text(json.dumps(workloads), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def statuses(folder):
    """How the program ended for each of its parts: all at once, since each start of PyTorch takes seconds."""

    def status_of(part):
        return run(folder, folder / f"{part}.json", rehearse=False, parts=part)

    with ThreadPoolExecutor(len(PARTS)) as threads:
        return dict(zip(PARTS, threads.map(status_of, PARTS), strict=True))


@pytest.mark.parametrize("part", PARTS)
def test_a_program_without_evoflash_finds_nothing_wrong_with_an_export(part, folder, statuses):
    result = json.loads((folder / f"{part}.json").read_text(encoding="utf-8"))[part]

    assert result.get("bad") == []
    assert statuses[part] == 0


def test_the_best_kernel_of_a_call_is_found_and_right(spec):
    import evoflash.torch as drop_in

    if spec.name != "h200":
        pytest.skip("the archive has kernels of an H200")
    generator = torch.Generator("cuda").manual_seed(0)
    q, k, v = (
        torch.randn(2, heads, 777, 128, device="cuda", dtype=torch.float16, generator=generator)
        for heads in (16, 4, 4)
    )
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    out = drop_in.attention(q, k, v, causal=True)

    assert (out - expected).float().norm() < 1e-3 * expected.float().norm()
    compiled = torch.compile(lambda q, k, v: drop_in.attention(q, k, v, causal=True), fullgraph=True)
    assert torch.equal(compiled(q, k, v), out)


def test_two_graphs_and_eager_calls_of_a_kernel_with_counters_do_not_disturb_one_another(folder):
    import importlib.util

    place = importlib.util.spec_from_file_location("prefill", folder / "prefill.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    q, k, v = (torch.randn(1, heads, 2048, 128, device="cuda", dtype=torch.float16) for heads in (32, 8, 8))
    expected = module.attention(q, k, v)
    graphs, outs = [], []
    for _ in range(2):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs.append(module.attention(q, k, v))
        graphs.append(graph)
    streams = [torch.cuda.Stream() for _ in range(2)]
    for _ in range(50):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        eager = module.attention(q, k, v)
    torch.cuda.synchronize()

    assert torch.equal(eager, expected)
    assert all(torch.equal(out, expected) for out in outs)
