"""A kernel planned for one shape and one layout on one device: what a launch takes is laid out beforehand.

A launch writes its pointers into buffers that are ready and calls the driver. It waits for nothing and
allocates no device memory. Which pointers those are is the form's: runtime/attention_dense.py.
"""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .description import KINDS, CheckedCall, Form, Image, Refused, TensorMap, stride_name
from .driver import ELEMENT_BYTES, Config, Current, Driver, Encoder, LaunchError, config_of

_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_MAPS = 512  # of a tensor, kept for the addresses that it was last seen at
_SLOT = 8  # bytes


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch with its shape's numbers."""

    entry: str
    function: int  # a CUfunction
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    cluster: tuple[int, ...]
    resident: bool
    dependent: bool

    def config(self) -> Config:
        """The driver's description, for no stream yet. What it points at is kept alive by it."""
        return config_of(
            *(self.grid, self.block, self.shared_bytes, self.cluster),
            resident=self.resident,
            dependent=self.dependent,
        )


class Frame:
    """The buffers of one launch at a time: arguments, their places, and a configuration for each step."""

    __slots__ = (
        "_configs",
        "alive",
        "current",
        "current_address",
        "launches",
        "params",
        "params_address",
        "pointers",
        "slots",
        "stream",
    )

    def __init__(self, plan: "Plan") -> None:
        self.slots = ctypes.create_string_buffer(plan.constants, len(plan.constants))
        places = [0] * plan.map_count + [ctypes.addressof(self.slots) + at for at in plan.places]
        self.params = (ctypes.c_void_p * len(places))(*places)
        self.params_address = ctypes.addressof(self.params)
        self._configs = [step.config() for step in plan.steps]
        addresses = map(ctypes.addressof, self._configs)
        self.launches = tuple(zip(addresses, (step.function for step in plan.steps), strict=True))
        self.stream = 0
        self.current = ctypes.c_void_p()
        self.current_address = ctypes.addressof(self.current)
        self.alive: list[object] = [None] * plan.map_count
        self.pointers: tuple[int, ...] = ()  # to tensors: what the frame's maps are of

    def use(self, stream: int) -> None:
        for config in self._configs:
            config.stream = stream
        self.stream = stream


class Plan:
    """What Kernel.plan() returns; may be used by many threads at once. Its form adds `launch`."""

    workspace_bytes: int  # of device memory that each call needs as scratch, its own while it runs
    zeroed_bytes: int  # of them, the first: zero before the first call, and left so by every call

    def __init__(
        self,
        driver: Driver,
        context: int,
        *,
        name: str,
        form: Form,
        steps: Sequence[PlannedLaunch],
        encoders: Sequence[tuple[str, Encoder]],
        arguments: tuple[bytes, Sequence[int]],
        workspace: tuple[int, int],
    ) -> None:
        self._driver, self._context, self._name = driver, context, name
        self.steps, self.map_count = tuple(steps), len(encoders)
        self.constants, self.places = arguments
        self.workspace_bytes, self.zeroed_bytes = workspace
        self._launch, self._current = driver.launch, driver.current
        # For each tensor map: which pointer it is of, its encoder, and the maps by address.
        tensors = tuple(form.tensors)
        self._maps: tuple[tuple[int, Encoder, dict[int, tuple[int, object]]], ...] = tuple(
            (tensors.index(of), encoder, {}) for of, encoder in encoders
        )
        self._frames: list[Frame] = [Frame(self)]

    def _send(self, frame: Frame, tensors: tuple[int, ...], stream: int) -> None:
        """Enqueues a call of the form's tensors, whose pointers the frame's buffer holds, and all of them are
        checked; puts the frame back. A form takes it from `_frames`, or makes one where there is none.
        """
        if stream != frame.stream:
            frame.use(stream)
        self._current(frame.current_address)
        if frame.current.value == self._context:
            self._enqueue(frame, tensors)
        else:  # a thread whose current context is another device's, or that has none yet
            with Current(self._driver, self._context):
                self._enqueue(frame, tensors)
        self._frames.append(frame)

    def _enqueue(self, frame: Frame, pointers: tuple[int, ...]) -> None:
        """The launches, in the plan's context: the driver writes no tensor map where there is none."""
        if self._maps and frame.pointers != pointers:
            self._place_maps(frame, pointers)
        for config, function in frame.launches:
            if status := self._launch(config, function, frame.params_address, None):
                raise self._launch_error(status)

    def _launch_error(self, status: int) -> LaunchError:
        return LaunchError(f"{self._name}: cuLaunchKernelEx: {self._driver.error(status)}")

    def _place_maps(self, frame: Frame, pointers: tuple[int, ...]) -> None:
        """Points the frame at the maps of these addresses, and keeps them alive until its next launch."""
        for index, (of, encoder, known) in enumerate(self._maps):
            address = pointers[of]
            if frame.pointers and frame.pointers[of] == address:
                continue
            found = known.get(address)
            if found is None:
                found = encoder(address)
                if len(known) >= _MOST_MAPS:
                    known.clear()
                known[address] = found
            frame.params[index] = found[0]
            frame.alive[index] = found
        frame.pointers = pointers


def steps_of(
    image: Image, sizes: Mapping[str, int], functions: Mapping[str, int], *, name: str
) -> list[PlannedLaunch]:
    """The image's launches for a shape. Refused where a GPU has no grid of that size."""
    steps = []
    for launch in image.launches:
        grid = tuple(side(sizes) for side in launch.grid)
        for axis, blocks, most in zip("xyz", grid, _MOST_BLOCKS, strict=True):
            if not 1 <= blocks <= most:
                shape = ", ".join(f"{size}={number}" for size, number in sizes.items())
                raise Refused(
                    f"{name}: {shape} takes {blocks} blocks along {axis}, a GPU launches 1 to {most}."
                )
        steps.append(
            PlannedLaunch(
                launch.entry,
                functions[launch.entry],
                grid,
                tuple(side(sizes) for side in launch.block),
                launch.shared_bytes(sizes),
                launch.cluster,
                launch.resident,
                launch.dependent,
            )
        )
    return steps


def arguments_of(image: Image, form: Form, call: CheckedCall) -> tuple[bytes, list[int]]:
    """The argument buffer, whose first slots are for the pointers, and each argument's place in it."""
    values: dict[str, float] = {**call.sizes, **call.numbers}
    for tensor, axes in form.tensors.items():
        values |= {stride_name(tensor, axis): n for axis, n in zip(axes, call.strides[tensor], strict=True)}
    pointers = (*form.tensors, *form.pointers)
    buffer, places = bytearray(_SLOT * len(pointers)), []
    for kind, name in image.arguments:
        if name in pointers:
            places.append(_SLOT * pointers.index(name))
        else:
            places.append(len(buffer))
            buffer += struct.pack("=" + KINDS[kind], values[name])
    return bytes(buffer), places


def encoder_of(driver: Driver, wanted: TensorMap, call: CheckedCall) -> Encoder:
    """The encoder of one tensor map: dimensions, the contiguous one first, and all other strides in bytes."""
    shape, dtype = call.extents[wanted.of], call.dtypes.get(wanted.of, "bf16")
    in_bytes = [ELEMENT_BYTES[dtype] * stride for stride in (*call.strides[wanted.of], 1)]
    axes = (3, 1, 2, 0) if wanted.heads_inside else tuple(reversed(range(len(shape))))
    dims, spans, box = ([each[axis] for axis in axes] for each in (shape, in_bytes, wanted.box))
    return Encoder(
        *(driver, dtype, dims, spans[1:], box),
        swizzle=wanted.swizzle,
        promotion=wanted.l2_promotion,
    )
