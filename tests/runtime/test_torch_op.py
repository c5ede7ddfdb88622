"""An exported kernel as a function of tensors, without a GPU: refusals, the fallback, the operators."""

import subprocess
import sys
import weakref
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from evoflash.exports.launch_json import artefact  # noqa: E402
from evoflash.runtime.launch import Kernel, Refused  # noqa: E402
from evoflash.runtime.torch_call import Call, _in_python, guard_of  # noqa: E402
from evoflash.runtime.torch_fallback import by_sdpa  # noqa: E402
from evoflash.runtime.torch_op import Attention  # noqa: E402
from evoflash.runtime.torch_operators import SCHEMAS, operators  # noqa: E402

B, HEADS, ROWS, D = 2, 8, 48, 64


@cache
def attention():
    """A kernel of fp16, head_dim 64, as many key/value heads as query heads, no mask."""
    made = artefact(exported("direct"))
    return Attention(Kernel(made.description, made.images))


def tensors(*, dtype=torch.float16, heads=HEADS, kv_heads=HEADS, rows=ROWS, keys=ROWS, d=D, device="cpu"):
    generator = torch.Generator().manual_seed(5)
    shapes = ((B, heads, rows, d), (B, kv_heads, keys, d), (B, kv_heads, keys, d))
    return [torch.randn(shape, generator=generator).to(device, dtype) for shape in shapes]


def exact(q, k, v, *, causal, scale=None):
    """Output and logarithms of the sums by their definition, in float64."""
    keys, values = (t.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for t in (k, v))
    scores = q.double() @ keys.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        seen = torch.ones(scores.shape[2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, dim=3).nan_to_num() @ values, scores.logsumexp(dim=3)


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_the_fallback_gives_the_output_and_the_logarithms_of_the_sums(layout):
    given = tensors()
    right, sums = exact(*given, causal=False)
    if layout == "bshd":
        given = [tensor.transpose(1, 2).contiguous() for tensor in given]

    out, lse = attention()(*given, layout=layout, return_lse=True, fallback=True)

    assert out.shape == given[0].shape
    as_right = out if layout == "bhsd" else out.transpose(1, 2)
    assert (as_right.double() - right).abs().max() < 2e-3
    assert (lse.double() - sums).abs().max() < 1e-3


@pytest.mark.parametrize("sizes", [(48, 48), (16, 48), (48, 16), (1, 48), (5, 3)])
def test_the_fallback_aligns_a_causal_mask_at_the_bottom_right(sizes):
    rows, keys = sizes
    given = tensors(rows=rows, keys=keys, kv_heads=2)
    right, sums = exact(*given, causal=True)

    out, lse = by_sdpa(*given, causal=True, scale=None, return_lse=True)

    assert (out.double() - right).abs().max() < 2e-3
    assert torch.allclose(lse.double(), sums, atol=1e-3)
    assert torch.isneginf(lse[:, :, : max(0, rows - keys)]).all()


def test_the_fallback_writes_to_the_tensor_that_is_given():
    q, k, v = tensors()
    out = torch.full_like(q, float("nan"))

    result = attention()(q, k, v, out=out, scale=0.5, fallback=True)

    assert result is out
    assert (out.double() - exact(q, k, v, causal=False, scale=0.5)[0]).abs().max() < 2e-3


def test_gradients_flow_through_the_fallback():
    q, k, v = tensors()
    q.requires_grad_()

    attention()(q, k, v, fallback=True).float().sum().backward()

    assert q.grad is not None
    assert q.grad.abs().max() > 0


@pytest.mark.parametrize("causal", [False, True])
def test_the_compiled_fallback_takes_one_shape_after_the_other(causal):
    """From the second shape on torch.compile keeps sizes symbolic. In one graph: nothing falls out of it."""
    torch._dynamo.reset()
    kernel = attention()

    @torch.compile(backend="eager", fullgraph=True)
    def compiled(q, k, v):
        return kernel(q, k, v, causal=causal, fallback=True)

    for heads, kv_heads, rows, keys in (
        (4, 4, 64, 64),
        (4, 4, 96, 96),
        (8, 8, 96, 96),
        (8, 2, 5, 7),
        (8, 8, 1, 9),
    ):
        q, k, v = tensors(heads=heads, kv_heads=kv_heads, rows=rows, keys=keys)
        expected, _ = by_sdpa(q, k, v, causal=causal, scale=None)
        torch.testing.assert_close(compiled(q, k, v), expected)


# What is wrong with a call, and a word of the line that says so. The fallback has an answer to these.
UNSUPPORTED = {
    "on the CPU": (lambda: tensors(), {}, "cpu"),
    "another dtype": (lambda: fake_tensors(dtype=torch.bfloat16), {}, "bfloat16"),
    "float32": (lambda: fake_tensors(dtype=torch.float32), {}, "float32"),
    "another head size": (lambda: fake_tensors(d=128), {}, "128"),
    "another ratio of heads": (lambda: fake_tensors(kv_heads=2), {}, "2 key/value heads"),
    "another mask": (lambda: fake_tensors(), {"causal": True}, "causal"),
    "a gradient": (lambda: [t.requires_grad_() for t in fake_tensors()], {}, "forward only"),
    "mixed dtypes": (lambda: [fake_tensors()[0], *fake_tensors(dtype=torch.bfloat16)[1:]], {}, "bfloat16"),
}


def fake_tensors(**how):
    """Tensors on a GPU, without their values: whoever asks for those fails."""
    with FakeTensorMode():
        return [torch.empty_like(tensor, device="cuda") for tensor in tensors(**how)]


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_the_kernel_does_not_compute_is_refused_in_one_line(name):
    make, how, word = UNSUPPORTED[name]

    with pytest.raises(Refused, match=word) as refused:
        attention()(*make(), **how)

    assert "\n" not in str(refused.value)


# What no fallback can mend.
NONSENSE = {
    "a list": (lambda q, k, v: ([1.0], k, v), {}, "list"),
    "no tensor": (lambda q, k, v: (q, None, v), {}, "NoneType"),
    "three dimensions": (lambda q, k, v: (q[0], k, v), {}, "3 dimensions"),
    "k and v that differ": (lambda q, k, v: (q, k, v[:, :, :-1]), {}, "same"),
    "two batches": (lambda q, k, v: (q, k[:1], v[:1]), {}, "batch"),
    "two head sizes": (lambda q, k, v: (q, k[..., :32], v[..., :32]), {}, "head_dim"),
    "heads that do not divide": (lambda q, k, v: (q, k[:, :3], v[:, :3]), {}, "multiple"),
    "no rows": (lambda q, k, v: (q[:, :, :0], k, v), {}, "0"),
    "no keys": (lambda q, k, v: (q, k[:, :, :0], v[:, :, :0]), {}, "0"),
    "an unknown layout": (lambda q, k, v: (q, k, v), {"layout": "sbhd"}, "sbhd"),
    "an output of another shape": (lambda q, k, v: (q, k, v), {"out": torch.empty(3)}, "dimensions"),
    "an output of another dtype": (lambda q, k, v: (q, k, v), {"out": torch.empty(B, HEADS, ROWS, D)}, "out"),
    "an output with a gradient": (
        lambda q, k, v: (q, k, v),
        {"out": torch.empty(B, HEADS, ROWS, D, dtype=torch.float16, requires_grad=True)},
        "detach",
    ),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_call_without_an_answer_ends_in_one_line_with_or_without_the_fallback(name):
    change, how, word = NONSENSE[name]
    given = change(*tensors())

    for fallback in (False, True):
        with pytest.raises(Refused, match=word) as refused:
            attention()(*given, **how, fallback=fallback)
        assert "\n" not in str(refused.value)


@contextmanager
def autocast(dtype):
    """torch.autocast("cuda"), which does nothing on a machine without a GPU, by the switches that it sets."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_autocast_to_another_type_is_refused(dtype):
    with autocast(torch.bfloat16), pytest.raises(Refused, match="autocast asks for bfloat16"):
        attention()(*fake_tensors(dtype=dtype))


def test_autocast_to_the_type_of_the_kernel_is_served():
    with autocast(torch.float16):
        out = attention()(*fake_tensors(dtype=torch.float32))

    assert out.dtype is torch.float16


def test_one_query_sees_every_key_under_either_mask():
    q, k, v = fake_tensors(rows=1)

    assert attention()(q, k, v, causal=True).shape == q.shape


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_the_output_has_the_memory_order_of_q(layout):
    q, k, v = fake_tensors()
    if layout == "bshd":
        q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))

    out, lse = attention()(q, k, v, layout=layout, return_lse=True)

    assert out.shape == q.shape
    assert out.stride() == q.stride()
    assert (lse.shape, lse.dtype) == ((B, HEADS, ROWS), torch.float32)


def test_an_export_of_a_program_holds_the_operator_once():
    kernel = attention()

    class Layer(torch.nn.Module):
        def forward(self, q, k, v):
            return kernel(q, k, v, layout="bshd") * 2

    with FakeTensorMode():
        given = [torch.empty(B, ROWS, HEADS, D, dtype=torch.float16, device="cuda") for _ in range(3)]
    program = torch.export.export(Layer(), tuple(given))

    called = [str(node.target) for node in program.graph.nodes if "evoflash" in str(node.target)]
    assert called == [f"{attention().name}.attention.default"]


# ---- the operators, with a stand-in of the kernel on the CPU


@cache
def with_cpu_stand_ins():
    """The kernel's operators, which on the CPU are computed by PyTorch: dispatching is tried, no kernel."""
    found = operators(attention())
    library = getattr(torch.ops, attention().name)._evoflash

    def plain(q, k, v, scale, fallback):
        return torch.empty_like(q).copy_(by_sdpa(q, k, v, causal=False, scale=scale)[0])

    def lse(q, k, v, scale, fallback):
        out, sums = by_sdpa(q, k, v, causal=False, scale=scale, return_lse=True)
        return torch.empty_like(q).copy_(out), sums.contiguous()

    def out(q, k, v, out, lse, scale, fallback):
        result, sums = by_sdpa(q, k, v, causal=False, scale=scale, return_lse=True)
        out.copy_(result)
        if lse is not None:
            lse.copy_(sums)

    for name, stand_in in (("attention", plain), ("attention_lse", lse), ("attention_out", out)):
        library.impl(name, stand_in, "CPU")
    return found


def test_only_the_operator_that_is_given_outputs_changes_its_arguments():
    found = with_cpu_stand_ins()

    assert not found.plain._schema.is_mutable
    assert not found.lse._schema.is_mutable
    written = [a.name for a in found.out._schema.arguments if a.alias_info and a.alias_info.is_write]
    assert written == ["out", "lse"]
    assert set(SCHEMAS) == {"attention", "attention_lse", "attention_out"}


@pytest.mark.full  # Inductor compiles C++ for half a minute
def test_ahead_of_time_compilation_calls_the_operator(tmp_path):
    operator, given = with_cpu_stand_ins().plain, tuple(tensors())

    class Layer(torch.nn.Module):
        def forward(self, q, k, v):
            return operator(q, k, v, 0.125, False) * 2

    program = torch.export.export(Layer(), given)
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "layer.pt2"))

    assert torch.equal(torch._inductor.aoti_load_package(package)(*given), Layer()(*given))
    script = f"import torch; torch._inductor.aoti_load_package({package!r})"
    alone = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"Could not find schema for {attention().name}::attention" in alone.stderr


@pytest.mark.slow
@pytest.mark.parametrize("is_bshd", [False, True], ids=["bhsd", "bshd"])
@pytest.mark.parametrize("name", ["plain", "lse", "out"])
def test_opcheck_finds_nothing_wrong(name, is_bshd):
    q, k, v = tensors()
    if is_bshd:
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    arguments = (q, k, v, 0.125, False)
    if name == "out":
        arguments = (q, k, v, torch.empty_like(q), torch.empty(B, HEADS, ROWS), 0.125, False)

    outcome = torch.library.opcheck(getattr(with_cpu_stand_ins(), name), arguments)

    assert set(outcome.values()) == {"SUCCESS"}


@pytest.mark.slow
def test_a_compiled_program_of_one_graph_calls_the_operator():
    found = with_cpu_stand_ins()
    given = tensors()
    compiled = torch.compile(lambda q, k, v: found.plain(q, k, v, 0.125, False) + 1, fullgraph=True)

    out = compiled(*given)

    assert (out - 1).double().sub(exact(*given, causal=False)[0]).abs().max() < 3e-3


@pytest.mark.slow
def test_a_compiled_call_that_falls_back_is_one_graph():
    given, kernel = tensors(), attention()
    compiled = torch.compile(lambda q, k, v: kernel(q, k, v, fallback=True), fullgraph=True)

    assert torch.equal(compiled(*given), kernel(*given, fallback=True))


@pytest.mark.parametrize("make", [guard_of, lambda *tensors: _in_python(tensors)], ids=["C++", "Python"])
def test_a_guard_lets_through_only_calls_as_the_first(make):
    q, k, v = tensors()
    guard = make(q, k, v)

    assert guard(*(tensor.clone() for tensor in (q, k, v)))
    others = {
        "shape": (q, k, v[:, :, :-1]),
        "strides": (q.transpose(1, 2).contiguous().transpose(1, 2), k, v),
        "dtype": (q, k.bfloat16(), v),
        "gradient": (q.clone().requires_grad_(), k, v),
        "parameter": (torch.nn.Parameter(q, requires_grad=False), k, v),
        "no tensor": (q, None, v),
    }
    assert [name for name, given in others.items() if guard(*given)] == []
    seen = []
    torch.vmap(lambda a: seen.append(guard(a, k, v)) or a)(torch.stack((q, q)))
    torch.func.grad(lambda a: seen.append(guard(q, k, v)) or a.sum())(q)
    assert seen == [False, False]
    with torch.no_grad():
        assert not guard(q.clone().requires_grad_()[:, :, :1], k, v)


def test_a_guard_keeps_no_tensor_alive():
    q, k, v = tensors()
    seen = weakref.ref(q)
    guard = guard_of(q, k, v)

    del q

    assert seen() is None
    assert not guard(k[:1], k, v)


def test_two_copies_of_one_export_share_their_operators():
    again = Attention(attention().kernel)

    assert again.name == attention().name
    assert again._operators.plain is attention()._operators.plain


def test_an_output_in_the_memory_of_an_input_is_refused():
    room = torch.zeros(1, 1, 8, 8, dtype=torch.uint8).expand(1, 1, 8, 8).reshape(64)
    q, k, v = (room[begin : begin + 8].view(1, 1, 1, 8) for begin in (0, 20, 40))
    launched = []
    plan = SimpleNamespace(launch=lambda *call: launched.append(call), workspace_bytes=0, zeroed_bytes=0)

    def out(begin):
        return room[begin : begin + 8].view(1, 1, 1, 8)

    call = Call(plan, None, (q, k, v, out(50)))

    for begin in (13, 20, 27):
        with pytest.raises(Refused, match="overlaps k"):
            call.enqueue(q, k, v, out(begin), None, is_given=True)
    assert not launched

    for begin in (12, 28):
        call.enqueue(q, k, v, out(begin), None, is_given=True)
    assert len(launched) == 2
