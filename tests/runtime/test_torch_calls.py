"""Calls after the first, whose plans and guards are kept: each launches what it was asked for, without a GPU.

Tensors are on the CPU and taken for those of the recording driver's device; PyTorch's allocator gives
addresses out again, as it does on a GPU.
"""

import struct

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from exported_cases import exported  # noqa: E402
from recording import sizes_of  # noqa: E402

from evoflash.exports.launch_json import artefact  # noqa: E402
from evoflash.runtime import torch_op  # noqa: E402
from evoflash.runtime.launch import Kernel, Refused  # noqa: E402
from evoflash.runtime.torch_call import memory_of  # noqa: E402
from evoflash.runtime.torch_op import Attention  # noqa: E402


class OnDevice0(Kernel):
    """Takes the CPU's tensors for those of the driver's device."""

    def plan(self, *what, device, **more):
        return super().plan(*what, device=0, **more)


class OfAnyTensor(Attention):
    def why_not(self, *call):
        return ""


def attention_of(name, recorder):
    made = artefact(exported(name))
    (image,) = made.description["images"].values()
    recorder.expects(sizes_of(image))
    return OfAnyTensor(OnDevice0(made.description, made.images, driver=recorder.path))


def tensors(attention, *, rows=64, heads=2):
    shape = (1, heads, rows, attention.head_dim)
    grouped = (1, heads * attention.group, rows, attention.head_dim)
    return [torch.zeros(each, dtype=attention.dtype) for each in (grouped, shape, shape)]


def maps_of(launched):
    """The recorded tensor maps of q, k and v, by their words: address first, then shape and strides."""
    return [struct.unpack("16Q", argument) for argument in launched.arguments if len(argument) == 128]


def pointers_of(launched):
    return [struct.unpack("Q", argument)[0] for argument in launched.arguments if len(argument) == 8][:4]


def test_each_call_launches_on_the_tensors_that_it_was_given(recorder):
    attention, calls = attention_of("direct", recorder), []
    for _ in range(3):
        q, k, v = tensors(attention)
        calls.append((q, k, v, attention(q, k, v)))

    found = [pointers_of(launched) for launched in recorder.launches()]
    assert found == [[tensor.data_ptr() for tensor in call] for call in calls]
    assert len(attention._recent) == 1


def test_the_same_memory_with_other_strides_is_another_call(recorder):
    attention = attention_of("tensor maps", recorder)
    q, k, v = tensors(attention)
    room = torch.zeros(2 * k.numel(), dtype=k.dtype)
    first, second = room[: k.numel()].view_as(k), room.view(1, 2, 64, 2, -1)[:, :, :, 0]
    assert first.data_ptr() == second.data_ptr()

    for keys in (first, second, first):
        attention(q, keys, v)

    of_keys = [[m for m in maps_of(each) if m[0] == room.data_ptr()] for each in recorder.launches()]
    assert of_keys[0] == of_keys[2] != of_keys[1]
    assert all(of_keys)


def test_memory_that_was_freed_and_given_out_again_is_described_anew(recorder):
    attention = attention_of("tensor maps", recorder)
    room = torch.zeros(1 << 16, dtype=attention.dtype)
    for rows in (64, 32, 64):
        q, k, v = tensors(attention, rows=rows)
        attention(q, room[: k.numel()].view_as(k), v)

    of_keys = [[m[4:] for m in maps_of(each) if m[0] == room.data_ptr()] for each in recorder.launches()]
    assert of_keys[0] == of_keys[2] != of_keys[1]


def test_only_the_tensor_that_moved_gets_another_map(recorder):
    attention = attention_of("tensor maps", recorder)
    q, k, v = tensors(attention)
    out, other = torch.empty_like(q), torch.zeros_like(v)
    for values in (v, other, v):
        attention(q, k, values, out=out)

    found = [{m[0] for m in maps_of(each)} for each in recorder.launches()]
    for addresses, values in zip(found, (v, other, v), strict=True):
        assert values.data_ptr() in addresses
        assert {q.data_ptr(), k.data_ptr()} <= addresses
    assert other.data_ptr() not in found[0] | found[2]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3)])
def test_the_output_lies_as_empty_like_would_have_it(order, recorder):
    attention = attention_of("direct", recorder)
    q, k, v = tensors(attention)
    q = q.permute(order).contiguous().permute([order.index(axis) for axis in range(4)])
    for _ in range(2):  # the second is the kept one
        out, lse = attention(q, k, v, return_lse=True)
        assert (out.shape, out.stride(), out.dtype) == (q.shape, torch.empty_like(q).stride(), q.dtype)
        assert (lse.shape, lse.is_contiguous(), lse.dtype) == (q.shape[:3], True, torch.float32)


def test_a_view_of_wider_rows_gets_a_dense_output(recorder):
    attention = attention_of("direct", recorder)
    q, k, v = tensors(attention)
    wide = torch.cat((q, q), dim=3)[..., : q.shape[3]]
    for _ in range(2):
        assert attention(wide, k, v).stride() == torch.empty_like(wide).stride()


def test_where_another_device_is_current_the_kept_call_is_not_launched_there(recorder, monkeypatch):
    attention = attention_of("direct", recorder)
    q, k, v = tensors(attention)
    attention(q, k, v)
    monkeypatch.setattr(torch_op, "_current_device", lambda: 1)
    monkeypatch.setattr(attention, "_call_checked", lambda *given, **how: "by the slower path")

    assert attention(q, k, v) == "by the slower path"
    assert len(recorder.launches()) == 1


@pytest.mark.parametrize("change", ["gradient", "autocast", "dtype", "rows", "subclass"])
def test_a_call_that_differs_in_anything_is_not_taken_for_the_kept_one(change, recorder):
    attention = attention_of("direct", recorder)
    q, k, v = tensors(attention)
    attention(q, k, v)
    changed = {
        "gradient": lambda: q.clone().requires_grad_(),
        "autocast": lambda: q,
        "dtype": lambda: q.to(torch.bfloat16),
        "rows": lambda: q[:, :, :32],
        "subclass": lambda: q.as_subclass(Other),
    }[change]()
    (kept,) = attention._recent

    with torch.autocast("cpu", enabled=change == "autocast"):
        assert not kept.guard(changed, k, v)


class Other(torch.Tensor):
    """A tensor of another type, which may mean something else by everything."""


def test_an_output_that_overlaps_an_input_is_refused_by_the_kept_call_too(recorder):
    attention = attention_of("direct", recorder)
    q, k, v = tensors(attention)
    attention(q, k, v, out=torch.empty_like(q))

    with pytest.raises(Refused, match="overlaps k"):
        attention(q, k, v, out=k)
    assert len(recorder.launches()) == 1


def test_memory_comes_from_pytorch_in_versions_that_were_not_tried(monkeypatch):
    monkeypatch.setattr("evoflash.runtime.torch_call._IS_TRIED", False)

    made = memory_of(torch.device("cpu"))((2, 3), (3, 1), torch.float32)

    assert (made.shape, made.stride(), made.dtype) == ((2, 3), (3, 1), torch.float32)
