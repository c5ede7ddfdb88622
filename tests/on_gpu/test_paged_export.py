"""Kernels of paged attention as exported files, on the GPU: engines' caches, one graph for all lengths,
torch.compile. Times are judged nowhere here.
"""

import importlib.util
import math
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402
from paged_cases import ENGINES, LAYOUTS, Asked, Pages, called, is_near  # noqa: E402

from evoflash.exports import one_file  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
PLAIN, FULL, ANY = "pages", "ragged pages with all features", "pages of any size"
ROOM = 100  # pages of a sequence
FIVE = [700, 0, 1600, 33], [0, 0, 0, 0], [1, 16, 17, 1599], [0, 1600, 0, 0], [1600, 1600, 1600, 1600]


def on_gpu(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="cuda")


@pytest.fixture(scope="module")
def module_of(spec, tmp_path_factory):
    """The exported file of a case, imported."""
    if spec.compute_capability < 90:
        pytest.skip("the cases have genes of sm_90 alone")
    folder, known = tmp_path_factory.mktemp("paged"), {}

    def module(name):
        if name not in known:
            path = folder / f"paged_{len(known)}.py"
            one_file.write_torch(exported(name, spec.name), path)
            place = importlib.util.spec_from_file_location(path.stem, path)
            known[name] = importlib.util.module_from_spec(place)
            sys.modules[path.stem] = known[name]  # as after an import: torch.compile asks for it
            place.loader.exec_module(known[name])
        return known[name]

    return module


class Static:
    """Memory of one size for calls of any lengths, as a captured graph has it."""

    def __init__(self):
        most = Pages(Asked([1600] * 4), on_gpu, columns=ROOM)
        self.k, self.v = (most.copied(torch.cat([each] * 2)) for each in (most.k, most.v))
        self.q, self.table, self.lengths, self.out = most.q, most.table, most.lengths, most.out

    def hold(self, pages):
        """The same sequences in this memory; what they leave free holds NaN."""
        for pool, new in ((self.k, pages.k), (self.v, pages.v)):
            pool.fill_(math.nan)
            pool[: len(new)] = new.cuda()
        for mine, new in ((self.q, pages.q), (self.table, pages.table), (self.lengths, pages.lengths)):
            mine.copy_(new)
        self.out.fill_(math.nan)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_is_read_as_an_engine_lays_it(layout, engine, module_of):
    if (layout, engine) == ("slots", "flashinfer"):
        pytest.skip("FlashInfer takes pages alone")
    pages = Pages(Asked([1234, 0, 90, 1]), on_gpu)

    out, lse = called(module_of(PLAIN), pages, layout, engine)

    right, right_lse = pages.right()
    assert is_near(out, right)
    assert (out[1] == 0).all(), "an empty sequence has zeros"
    assert torch.allclose(lse.cpu().double(), right_lse, atol=2e-3)


@pytest.mark.parametrize("early", [False, True])
def test_all_features_and_rows_of_each_sequence(early, module_of):
    how = {"window": 100, "softcap": 15.0, "has_sinks": True, "dtype": torch.bfloat16}
    pages = Pages(Asked([900, 4, 0, 333], rows=[4, 1, 2, 3], **how), on_gpu)

    out = module_of(FULL).paged_attention(
        *(pages.q, *pages.cache("rows of 2 D"), pages.table, pages.lengths),
        window_left=100,
        softcap=15.0,
        sinks=pages.sinks,
        q_indptr=pages.q_indptr,
        early=early,
    )

    assert is_near(out, pages.right()[0], of=2e-2)


def test_pages_may_be_of_one_key(module_of):
    pages = Pages(Asked([700, 0, 5], page=1), on_gpu)

    out, _ = called(module_of(ANY), pages, "slots", "paged_attention")

    assert is_near(out, pages.right()[0])


def test_one_graph_is_right_for_all_lengths(module_of):
    attend, static, graph = module_of(PLAIN).paged_attention, Static(), torch.cuda.CUDAGraph()
    given = static.q, static.k, static.v, static.table, static.lengths
    attend(*given, out=static.out)
    with torch.cuda.graph(graph):
        attend(*given, out=static.out)
    for turn in range(2):
        for seed, lengths in enumerate(FIVE):
            pages = Pages(Asked(lengths), on_gpu, columns=ROOM, seed=seed)
            static.hold(pages)
            graph.replay()
            assert is_near(static.out, pages.right()[0]), (turn, lengths)
            eager = attend(*given)
            assert torch.equal(eager, static.out), (turn, lengths)


def test_flashinfers_plan_is_read_by_captured_calls(module_of):
    static, graph = Static(), torch.cuda.CUDAGraph()
    buffers = (on_gpu((size,), torch.int32) for size in (5, 4 * ROOM, 4))
    names = "paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"
    wrapper = module_of(PLAIN).flashinfer_decode_wrapper(
        on_gpu((1,), torch.uint8), "NHD", use_cuda_graph=True, **dict(zip(names, buffers, strict=True))
    )
    for seed, lengths in enumerate(FIVE):
        pages = Pages(Asked(lengths), on_gpu, columns=ROOM, seed=seed)
        static.hold(pages)
        wrapper.plan(pages.indptr.cpu(), pages.indices, pages.last, 8, 2, 64, 16)
        if seed == 0:
            wrapper.run(static.q, (static.k, static.v), out=static.out)
            with torch.cuda.graph(graph):
                wrapper.run(static.q, (static.k, static.v), out=static.out)
        graph.replay()
        assert is_near(static.out, pages.right()[0]), lengths


@pytest.mark.parametrize("how", [{}, {"dynamic": True}, {"mode": "reduce-overhead"}], ids=str)
def test_a_compiled_call_gives_the_same_bits(how, module_of):
    attend = module_of(PLAIN).paged_attention

    def model(q, cache, table, lengths):
        out, lse = attend(q * 2, cache, None, table, lengths, layout="HND", return_lse=True)
        return out + 1, lse

    compiled = torch.compile(model, fullgraph=True, **how)
    for seed, lengths in enumerate(([700, 0, 1600, 33], [5, 16, 0, 700])):
        pages = Pages(Asked(lengths), on_gpu, columns=ROOM, seed=seed)
        given = pages.q, pages.cache("one tensor, HND"), pages.table, pages.lengths
        found = [each.clone() for each in compiled(*given)]
        assert all(map(torch.equal, found, model(*given)))
