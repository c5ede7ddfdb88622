"""launch.json as records. Asks no driver, and knows no form of a call: runtime/attention_dense.py is one."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .expressions import compile_expression

FORMAT, VERSION = "evoflash-launch", 1
# How an argument lies in its slot of 8 bytes, for struct.
KINDS = {"pointer": "Q", "int32": "i4x", "int64": "q", "float32": "f4x"}

Size = Callable[[Mapping[str, int]], int]


class Refused(ValueError):  # noqa: N818  # what it says is not an error of the kernel: the call is not for it
    """A call that the kernel was not verified for or cannot serve, in one line: what is wrong, what to do."""


@dataclass(frozen=True)
class CheckedCall:
    """A call's numbers by the names of its form: what a plan is made of."""

    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]  # of each tensor that has another than bf16
    extents: Mapping[str, tuple[int, ...]]  # of each tensor, its contiguous axis last
    strides: Mapping[str, tuple[int, ...]]  # of its other axes, in elements
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class Form:
    """How kernels take a call: its names in launch.json, and the functions that know what they mean."""

    name: str
    sizes: tuple[str, ...]  # whole numbers, of which launch.json's expressions are
    tensors: Mapping[str, Mapping[str, str]]  # for each axis but the contiguous one the size that it has
    pointers: tuple[str, ...]  # to what is no tensor with strides
    numbers: tuple[str, ...]
    parse_contract: Callable[[Mapping[str, Any]], Any]  # what launch.json says of the calls that are served
    # (name of the kernel, its contract, shape, strides, scale) -> the call; Refused for what is not served
    check_call: Callable[..., CheckedCall]
    plan: Callable[..., Any]  # the Plan whose launch() takes this form's arguments

    def argument_names(self) -> frozenset[str]:
        """What an argument of a kernel may be called."""
        strides = (stride_name(tensor, axis) for tensor, axes in self.tensors.items() for axis in axes)
        return frozenset((*self.tensors, *self.pointers, *self.sizes, *strides, *self.numbers))


def stride_name(tensor: str, axis: str) -> str:
    """The argument that holds a tensor's stride, "q_stride_row"."""
    return f"{tensor}_stride_{axis}"


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a call; sizes are functions of a shape."""

    entry: str
    grid: tuple[Size, ...]
    block: tuple[Size, ...]
    shared_bytes: Size  # dynamic shared memory
    cluster: tuple[int, ...]
    resident: bool  # its blocks wait for one another: all of them must fit on the GPU at once
    dependent: bool  # may begin before the launch before it has ended


@dataclass(frozen=True)
class TensorMap:
    """A tensor map, one of a kernel's first arguments: TMA moves boxes of that tensor."""

    of: str  # one of the form's tensors
    box: tuple[int, ...]  # in the order of the tensor's axes
    swizzle: int  # bytes
    l2_promotion: int  # bytes
    heads_inside: bool  # a box holds its heads row by row


@dataclass(frozen=True)
class Image:
    """The kernel as it is compiled and launched on GPUs of one architecture."""

    arch: str
    file: str
    sha256: str
    arguments: tuple[tuple[str, str], ...]  # kind and name, in the kernel's order; tensor maps stand before
    launches: tuple[Launch, ...]
    maps: tuple[TensorMap, ...]
    workspace_bytes: Size
    zeroed_bytes: Size

    def runs_on(self, capability: int) -> bool:
        """Whether a GPU of compute capability 90 loads it: sm_90a on 9.0 alone, sm_86 on 8.6 and 8.9."""
        compiled_for = int(self.arch.removeprefix("sm_").rstrip("af"))
        if self.arch.endswith(("a", "f")):
            return compiled_for == capability
        return compiled_for // 10 == capability // 10 and compiled_for <= capability


@dataclass(frozen=True)
class Description:
    """What launch.json says that launching takes."""

    name: str
    form: Form
    contract: Any  # the form's record
    images: tuple[Image, ...]


def parse_description(given: Mapping[str, Any], forms: Mapping[str, Form]) -> Description:
    """The records of a launch.json of one of these forms, the first where it names none; Refused where it is
    no launch.json, or one of a later version than this launcher knows.
    """
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise Refused(f"this is no launch.json of evoflash: its 'format' is not '{FORMAT}'.")
    if given.get("version") != VERSION:
        raise Refused(
            f"launch.json has version {given.get('version')}, this launcher reads {VERSION}: take its own."
        )
    named = given.get("form", next(iter(forms)))
    form = next((form for name, form in forms.items() if name == named), None)
    if form is None:
        raise Refused(
            f"launch.json is of the form {named!r}, this launcher knows {', '.join(forms)}: take its own."
        )
    try:
        return _parse(given, form)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refused(
            f"launch.json is damaged ({type(error).__name__}: {error}): export the kernel again."
        ) from None


def _parse(given: Mapping[str, Any], form: Form) -> Description:
    return Description(
        name=str(given["name"]),
        form=form,
        contract=form.parse_contract(given["contract"]),
        images=tuple(_image(arch, image, form) for arch, image in given["images"].items()),
    )


def _image(arch: str, given: Mapping[str, Any], form: Form) -> Image:
    names, sizes = form.argument_names(), form.sizes
    return Image(
        arch=arch,
        file=str(given["file"]),
        sha256=str(given["sha256"]),
        arguments=tuple(_argument(text, names) for text in given["arguments"]),
        launches=tuple(_launch(launch, sizes) for launch in given["launches"]),
        maps=tuple(_tensor_map(each, form.tensors) for each in given["tensor_maps"]),
        workspace_bytes=compile_expression(given["workspace_bytes"], sizes),
        zeroed_bytes=compile_expression(given["zeroed_bytes"], sizes),
    )


def _argument(text: str, names: Collection[str]) -> tuple[str, str]:
    kind, name = text.split(" ")
    if kind not in KINDS or name not in names:
        raise ValueError(f"argument '{text}'")
    return kind, name


def _launch(given: Mapping[str, Any], sizes: Sequence[str]) -> Launch:
    return Launch(
        entry=str(given["entry"]),
        grid=_three(given["grid"], sizes),
        block=_three(given["block"], sizes),
        shared_bytes=compile_expression(given["shared_memory_bytes"], sizes),
        cluster=tuple(map(int, given["cluster"])),
        resident=bool(given["resident"]),
        dependent=bool(given["dependent"]),
    )


def _three(given: Iterable[object], sizes: Sequence[str]) -> tuple[Size, ...]:
    x, y, z = (compile_expression(side, sizes) for side in given)
    return x, y, z


def _tensor_map(given: Mapping[str, Any], tensors: Collection[str]) -> TensorMap:
    if given["of"] not in tensors:
        raise ValueError(f"a tensor map of {given['of']}")
    box = tuple(map(int, given["box"]))
    return TensorMap(
        given["of"], box, int(given["swizzle"]), int(given["l2_promotion"]), bool(given["heads_inside"])
    )
