"""A kernel of paged attention as a function of tensors that lie as engines lay them, without a GPU: the
launch that is asked of the driver is carried out by the emulator on the tensors' own memory.
"""

import importlib.util
import math
import sys
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402
from paged_cases import ENGINES, LAYOUTS, Asked, Pages, called, is_near  # noqa: E402
from recording import sizes_of  # noqa: E402
from tables import table_of_cases  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from evoflash.emulator import launch as emulator  # noqa: E402
from evoflash.exports import hub, one_file  # noqa: E402
from evoflash.exports.launch_json import artefact  # noqa: E402
from evoflash.kernels import gxx  # noqa: E402
from evoflash.kernels.renderer import render  # noqa: E402
from evoflash.launch import LaunchConfig  # noqa: E402
from evoflash.operations.paged.form import LAYOUT  # noqa: E402
from evoflash.runtime import torch_memory, torch_paged  # noqa: E402
from evoflash.runtime.launch import Kernel, Refused  # noqa: E402
from evoflash.runtime.paged_adapters import flash_attn_varlen, flashinfer_run, flashinfer_wrapper  # noqa: E402
from evoflash.runtime.torch_paged import PagedAttention  # noqa: E402

PLAIN, FULL, ANY = "pages", "ragged pages with all features", "pages of any size"
ROW = Asked([37, 0, 90])


@cache
def made(name):
    return artefact(exported(name))


@cache
def library(name):
    case = exported(name)
    candidate = render(case.genome, case.problem.workloads[0].compile_key(case.gpu.arch), case.gpu)
    return gxx.build(candidate.source, name=case.genome.family)


class EmulatedKernel(Kernel):
    """An exported kernel whose launches, as the recording driver is asked for them, the emulator runs."""

    def __init__(self, name, recorder, memory):
        super().__init__(made(name).description, made(name).images, driver=recorder.path)
        recorder.expects(sizes_of(next(iter(made(name).description["images"].values()))))
        self.recorder, self.memory, self.case, self.planned = recorder, memory, name, []

    def zeros(self, size, *, device):
        return self.memory.array("workspace", (size,), np.uint8, writable=True).ctypes.data

    def plan(self, *arguments, device, **numbers):
        plan = super().plan(*arguments, device=0, **numbers)
        self.planned.append(plan)
        return EmulatedPlan(plan, self)


class EmulatedPlan:
    def __init__(self, plan, kernel):
        self.plan, self.kernel = plan, kernel
        self.workspace_bytes, self.zeroed_bytes = plan.workspace_bytes, plan.zeroed_bytes

    def launch(self, at, stream):
        self.kernel.recorder.library.recording_clear()
        self.plan.launch(at, stream)
        (asked,) = self.kernel.recorder.launches()
        (step,) = self.plan.steps
        launch = LaunchConfig(
            *(step.entry, step.grid, step.block, step.shared_bytes, self.workspace_bytes, step.cluster),
            zeroed_bytes=self.zeroed_bytes,
        )
        args = np.frombuffer(asked.arguments[0], LAYOUT)[0]
        assert emulator.run_launch(library(self.kernel.case), launch, [args]).reports == ()


@pytest.fixture
def memory():
    with emulator.Memory() as found:
        yield found


@pytest.fixture
def tensor(memory, monkeypatch):
    """What makes tensors in the emulator's memory, those of the functions under test too."""

    def make(shape, dtype):
        of = {2: np.int16, 4: np.int32}[dtype.itemsize]
        array = memory.array("tensor", (max(1, math.prod(shape)),), of, writable=True)
        return torch.from_numpy(array)[: math.prod(shape)].view(dtype).view(*shape)

    def new_empty(like, shape, dtype=None):
        return make(shape, dtype or like.dtype).fill_(math.nan)

    monkeypatch.setattr(torch.Tensor, "new_empty", new_empty)
    monkeypatch.setattr(torch_paged, "_where_trouble", lambda tensors: "")
    monkeypatch.setattr(torch_paged, "device_now", lambda: -1)
    monkeypatch.setattr(torch_memory, "_is_captured", lambda: False)
    return make


def functions_of(attend):
    """What an exported file offers."""
    return SimpleNamespace(
        paged_attention=attend,
        flash_attn_varlen_func=flash_attn_varlen(attend),
        flashinfer_decode_wrapper=flashinfer_wrapper(attend),
    )


@pytest.fixture
def attend(recorder, memory, tensor):
    return lambda name: PagedAttention(EmulatedKernel(name, recorder, memory))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_is_read_as_an_engine_lays_it(layout, engine, attend, tensor):
    if (layout, engine) == ("slots", "flashinfer"):
        pytest.skip("FlashInfer takes pages alone")
    pages = Pages(ROW, tensor)

    out, lse = called(functions_of(attend(PLAIN)), pages, layout, engine)

    right, right_lse = pages.right()
    assert is_near(out, right)
    assert (out[1] == 0).all(), "an empty sequence has zeros"
    assert torch.equal(lse.isinf(), right_lse.isinf())
    assert torch.allclose(lse[[0, 2]].double(), right_lse[[0, 2]], atol=2e-3)


@pytest.mark.parametrize("layout", ["NHD", "slots"])
def test_pages_may_be_of_one_key(layout, attend, tensor):
    pages = Pages(Asked([37, 0, 5], page=1), tensor)

    out, _ = called(functions_of(attend(ANY)), pages, layout, "paged_attention")

    assert is_near(out, pages.right()[0])


def test_windows_caps_sinks_and_rows_of_each_sequence_are_those_of_the_engine(attend, tensor):
    asked = Asked(
        [90, 4, 0, 50], rows=[4, 1, 2, 3], dtype=torch.bfloat16, window=20, softcap=15.0, has_sinks=True
    )
    pages = Pages(asked, tensor)

    out, lse = called(functions_of(attend(FULL)), pages, "rows of 2 D", "flash_attn_varlen_func")

    right, right_lse = pages.right()
    assert is_near(out, right, of=2e-2)
    assert torch.allclose(lse.double(), right_lse, atol=2e-2)


def test_rows_that_an_engine_pads_a_batch_with_are_nobodys(attend, tensor):
    asked = Asked([60, 33], rows=[2, 3], dtype=torch.bfloat16, window=20, softcap=15.0, has_sinks=True)
    pages = Pages(asked, tensor)
    more = {"window_left": 20, "softcap": 15.0, "sinks": pages.sinks, "q_indptr": pages.q_indptr}
    q, out = (pages.copied(torch.cat([each, each, each])) for each in (pages.q, pages.out))

    attend(FULL)(q, *pages.cache("NHD"), pages.table, pages.lengths, out=out, max_seq_q=3, **more)

    assert is_near(out[:5], pages.right()[0], of=2e-2)
    assert out[5:].isnan().all()


def test_one_head_and_one_sequence_have_any_strides(attend, tensor):
    pages = Pages(Asked([70], heads=4, kv_heads=1), tensor)
    odd = {1: 7}

    def with_odd_strides(each):
        strides = [odd.get(size, stride) for size, stride in zip(each.shape, each.stride(), strict=True)]
        return each.as_strided(each.shape, strides)

    k, v = pages.cache("NHD")
    q, table = with_odd_strides(pages.q), with_odd_strides(pages.table)
    out = attend(PLAIN)(q, with_odd_strides(k), with_odd_strides(v), table, pages.lengths)

    assert is_near(out, pages.right()[0])


def test_lengths_change_between_calls_and_shapes_share_a_plan(attend, tensor):
    function, room = attend(PLAIN), 6
    for turn, lengths in enumerate(([37, 0, 90], [0, 0, 0], [96, 1, 16], [16, 17, 15], [0, 96, 0])):
        pages = Pages(Asked(lengths), tensor, columns=room, seed=turn)
        k, v = (
            torch.cat([each, each.new_empty((20 - len(each), *each.shape[1:]))])
            for each in pages.cache("NHD")
        )
        k, v = pages.copied(k), pages.copied(v)
        out = function(pages.q, k, v, pages.table, pages.lengths)
        assert is_near(out, pages.right()[0]), lengths

    assert len({id(plan) for plan in function.kernel.planned}) == 1


def test_flashinfers_buffers_are_what_captured_calls_read(attend, tensor):
    first, then = (Pages(Asked(lengths), tensor, seed=8) for lengths in ([37, 5, 90], [12, 0, 70]))
    buffers = tensor((4,), torch.int32), tensor((30,), torch.int32), tensor((3,), torch.int32)
    names = "paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer"
    wrapper = flashinfer_wrapper(attend(PLAIN))(
        torch.empty(1), "NHD", use_cuda_graph=True, **dict(zip(names, buffers, strict=True))
    )
    for pages in (first, then):
        wrapper.plan(pages.indptr, pages.indices, pages.last, 8, 2, 64, 16, sm_scale=0.125)
        out = wrapper.run(pages.q, pages.cache("NHD"), k_scale=1.0, v_scale=2.0)
        assert is_near(out, 2 * pages.right()[0])
    assert wrapper._planned["indptr"] is buffers[0]
    with pytest.raises(Refused, match="no more and no fewer"):
        wrapper.plan(first.indptr[:2], first.indices, first.last[:1], 8, 2, 64, 16)


def test_flashinfers_run_is_a_function_too(attend, tensor):
    pages = Pages(ROW, tensor)

    out = flashinfer_run(attend(PLAIN))(
        pages.q,
        pages.cache("one tensor"),
        indptr=pages.indptr,
        indices=pages.indices,
        last_page_len=pages.last,
    )

    assert is_near(out, pages.right()[0])


def tensors(*, dtype="float16", heads=8, kv_heads=2, d=64, page=16, batch=3, rows=3):
    of = getattr(torch, dtype)
    q, k, v = (torch.zeros(shape, dtype=of) for shape in ((rows, heads, d), *[(9, page, kv_heads, d)] * 2))
    return [q, k, v, torch.zeros(batch, 4, dtype=torch.int32), torch.zeros(batch, dtype=torch.int32)]


@table_of_cases()
def test_what_the_kernel_does_not_compute_is_refused_in_one_line(changes, how, complaint, attend):
    given = {
        name: torch.zeros(value["shape"], dtype=getattr(torch, value["dtype"]))
        if isinstance(value, dict)
        else value
        for name, value in (how or {}).items()
    }
    positional = tensors(**changes)
    if "kv_lengths" in given:
        positional[4] = given.pop("kv_lengths") or None
    if "page_table" in given:
        positional[3] = given.pop("page_table")
    with pytest.raises(Refused, match=complaint) as refused:
        attend(PLAIN)(*positional, **given)
    assert "\n" not in str(refused.value)


@table_of_cases()
def test_what_an_engine_asks_for_and_the_kernel_has_not_is_refused(how, complaint, attend):
    q, k, v, table, lengths = tensors()
    usual = {
        "max_seqlen_q": 1,
        "cu_seqlens_q": torch.arange(4, dtype=torch.int32),
        "max_seqlen_k": 64,
        "seqused_k": lengths,
        "block_table": table,
        "causal": True,
    }
    with pytest.raises(Refused, match=complaint) as refused:
        flash_attn_varlen(attend(PLAIN))(q, k, v, **{**usual, **how})
    assert "\n" not in str(refused.value)


@cache
def function():
    return PagedAttention(Kernel(made(PLAIN).description, made(PLAIN).images))


def test_tensors_on_the_host_are_refused():
    with pytest.raises(Refused, match="on cpu: move them to one GPU"):
        function()(*tensors())


def test_a_compiler_is_told_the_shape_of_the_output():
    with FakeTensorMode():
        given = [torch.empty(each.shape, dtype=each.dtype, device="cuda") for each in tensors()]

        out, lse = function()(*given, return_lse=True)

    assert (out.shape, out.dtype, out.device.type) == ((3, 8, 64), torch.float16, "cuda")
    assert (lse.shape, lse.dtype) == ((3, 8), torch.float32)


def test_equal_kernels_have_one_operator_and_others_another():
    again = PagedAttention(Kernel(made(PLAIN).description, made(PLAIN).images))

    assert again.name == function().name
    assert again.name != PagedAttention(Kernel(made(ANY).description, made(ANY).images)).name


def loaded(path, name):
    """A file, or a package's folder, imported by its path."""
    file = path / "__init__.py" if path.is_dir() else path
    folders = [str(path)] if path.is_dir() else None
    place = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    sys.modules[name] = module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_exported_files_offer_what_engines_call(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    one_file.write_torch(exported(PLAIN), tmp_path / "paged.py")
    hub.write(exported(PLAIN), tmp_path / "hub")

    file = loaded(tmp_path / "paged.py", "paged_file")
    folder = loaded(tmp_path / "hub" / "build" / hub.VARIANT, "paged_folder")

    for module in (file, folder):
        engines = "flash_attn_varlen_func", "flashinfer_decode_run", "flashinfer_decode_wrapper"
        assert {"paged_attention", "Refused", *engines} <= set(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
        with pytest.raises(module.Refused, match="on cpu: move them to one GPU"):
            module.paged_attention(*tensors())
        assert "head_dim 64, 4 query heads" in module.paged_attention.serves


def test_a_compiler_sees_one_operator_and_no_break(attend, tensor):
    function, pages = attend(PLAIN), Pages(ROW, tensor)
    library = torch.library.Library(function.name, "IMPL")
    library.impl("paged_attention", function.compute, "CPU")
    k, v = pages.cache("HND")
    seen = []

    def keep(graph, example_inputs):
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph.forward

    def model(q, table, lengths, out):
        return function(q, k, v, table, lengths, layout="HND", out=out) * 1

    out = torch.compile(model, backend=keep, fullgraph=True)(pages.q, pages.table, pages.lengths, pages.out)

    assert is_near(out, pages.right()[0])
    assert [name for name in seen if "evoflash" in name] == [f"{function.name}.paged_attention.default"]
    library._destroy()


def test_a_compiled_call_writes_to_its_outputs_and_copies_no_cache(monkeypatch):
    monkeypatch.setattr(torch_paged, "_where_trouble", lambda tensors: "")
    attend, seen = function(), []

    def sums(*given):  # in the kernel's place
        of = torch_paged.PagedTensors(*given[: len(torch_paged.PagedTensors._fields)])
        seen.append((of.k.data_ptr(), of.v.data_ptr(), of.k.stride()))
        of.out.copy_(of.q + 1)
        if of.lse is not None:
            of.lse.fill_(7)

    library = torch.library.Library(attend.name, "IMPL")
    library.impl("paged_attention", sums, "CPU")
    q, _, _, table, lengths = tensors()
    cache, given_out = torch.zeros(9, 2, 2, 16, 64, dtype=torch.float16), torch.zeros_like(q)

    def model(q, cache, table, lengths, out):
        first, lse = attend(q * 2, cache, None, table, lengths, layout="HND", return_lse=True)
        return first + 1, lse, attend(q, cache, None, table, lengths, layout="HND", out=out) * 3

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=True)
    first, lse, then = compiled(q, cache, table, lengths, given_out)
    library._destroy()

    assert [float(each.mean()) for each in (first, lse, then, given_out)] == [2.0, 7.0, 3.0, 1.0]
    assert seen == [(cache.data_ptr(), cache[:, 1].data_ptr(), (4096, 64, 1024, 1))] * 2
