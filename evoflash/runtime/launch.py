"""An exported kernel in a program of one's own: launch.json and its cubins, by the CUDA driver alone.

    kernel = Kernel.read("folder")
    plan = kernel.plan((batch, heads, kv_heads, seq_q, seq_kv), strides, device=0)  # of an attention kernel
    plan.launch(q, k, v, o, lse, workspace, stream)
    plan = kernel.plan((m, n, k), strides, device=0)  # of a kernel of the linear layer
    plan.launch((x, w, w_scale, residual, y), bias, workspace, stream)
    plan = kernel.plan(shape, strides, device=0, window_left=127)  # of paged attention: attention_paged.py
    plan.launch(addresses, stream)

Owns no device memory: tensors and workspace are the caller's. Kernels run in the device's primary context,
which is that of the CUDA runtime, of PyTorch and of CuPy; it and the modules are kept for the process's life.
"""

import ctypes
import hashlib
import json
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .attention_dense import DENSE
from .attention_paged import PAGED
from .description import CheckedCall, Description, Form, Image, Refused, parse_description
from .driver import (
    CARVEOUT,
    DEVICE_ORDINAL,
    DYNAMIC_SHARED,
    LARGE_CLUSTERS,
    LIBRARY,
    MAJOR,
    MINOR,
    SM_COUNT,
    Current,
    Driver,
    LaunchError,
)
from .linear_rows import ROWS
from .plan import Plan, PlannedLaunch, arguments_of, encoder_of, steps_of
from .zeros import Zeros

__all__ = ["Kernel", "LaunchError", "Plan", "Refused"]

# The first: of files that name none.
FORMS: Mapping[str, Form] = {form.name: form for form in (DENSE, ROWS, PAGED)}
_MOST_PLANS = 1024
_PORTABLE_CLUSTER = 8  # blocks; more have to be asked for


class Kernel:
    """One exported kernel: launch.json and its cubins. May be used by many threads at once."""

    def __init__(
        self, description: Mapping[str, Any], images: Mapping[str, bytes], *, driver: str = LIBRARY
    ) -> None:
        """`images` are cubins by arch, "sm_90a"; `driver` names another library than the system's lib

        Refused where the description is none that this launcher reads, or a cubin is not the one described.
        Asks no driver yet.
        """
        self.description = description
        self._described = parse_description(description, FORMS)
        self._cubins = dict(images)
        for image in self._described.images:
            _check_image(image, self._cubins.get(image.arch))
        self._driver_path, self._lock = driver, threading.RLock()
        self._driver: Driver | None = None
        self._devices: dict[int, _Device] = {}
        self._plans: dict[object, Any] = {}

    @classmethod
    def read(cls, folder: str | Path, *, driver: str = LIBRARY) -> "Kernel":
        """Of a folder with launch.json and its cubins, or of such a JSON file of another name.

        Refused where a file is missing, damaged, or not the one that was exported.
        """
        path = Path(folder)
        path = path / "launch.json" if path.is_dir() else path
        try:
            description = json.loads(path.read_text(encoding="utf-8"))
            images = parse_description(description, FORMS).images
            files = {image.arch: path.with_name(image.file) for image in images}
            return cls(description, {arch: file.read_bytes() for arch, file in files.items()}, driver=driver)
        except OSError as error:
            raise Refused(
                f"{error.filename} cannot be read ({error.strerror}): export the kernel again."
            ) from None
        except Refused:
            raise
        except ValueError as error:  # no JSON, no UTF-8, no file name
            raise Refused(f"{path} is no launch.json ({error}): export the kernel again.") from None

    def plan(
        self,
        shape: Sequence[int],
        strides: Sequence[Sequence[int]],
        *,
        device: int,
        scale: float | None = None,
        **numbers: Any,
    ) -> Any:
        """The kernel for a shape on the device of that number: a Plan of the kernel's form.

        Of attention, the shape is (batch, heads, kv_heads, seq_q, seq_kv) and `strides` are those of q, k, v
        and o: (batch, head, row), in elements; columns are contiguous. LSE is a dense float32 tensor (batch,
        heads, seq_q). `scale`, of the scores, is 1/sqrt(head_dim) by default. Of the linear layer, the shape
        is (m, n, k), and strides are those of rows, (row,), of those of x, w, w_scale, residual and y that
        the kernel has. Of paged attention they are PAGED_SHAPE and PAGED_STRIDES, and `numbers` are
        PagedNumbers.
        Refused for a shape, strides or a GPU that the kernel was not verified for or cannot run on;
        LaunchError where the driver fails. Plans are kept: asking again is cheap.
        """
        try:
            key = tuple(shape), tuple(map(tuple, strides)), device, scale, *sorted(numbers.items())
            known = self._plans.get(key)
        except TypeError:
            raise Refused(
                f"a shape of {shape!r} and strides of {strides!r}: give tuples of whole numbers."
            ) from None
        if known is not None:
            return known
        described = self._described
        call = described.form.check_call(described.name, described.contract, shape, strides, scale, **numbers)
        with self._lock:
            made = self._on(device).plan(call)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            return self._plans.setdefault(key, made)

    @property
    def contract(self) -> Any:
        """The form's record of the calls that it was compiled for."""
        return self._described.contract

    @property
    def digests(self) -> tuple[str, ...]:
        """SHA-256 of its cubins: kernels of equal ones are equal."""
        return tuple(image.sha256 for image in self._described.images)

    def zeros(self, size: int, *, device: int) -> int:
        """The address of `size` bytes of device memory that are zero, nobody else's and never freed: a
        workspace for calls of one stream, or of one place in a CUDA graph.
        """
        return self._on(device).zeros.take(size)

    def device_of(self, address: int, name: str = "memory") -> int:
        """The number of the device whose memory the address is in; Refused for memory of none."""
        number = ctypes.c_int(-1)
        if self._load().status("cuPointerGetAttribute", number, DEVICE_ORDINAL, address) or number.value < 0:
            raise Refused(f"{name} is not in the memory of a GPU: move it there.")
        return number.value

    def _load(self) -> Driver:
        with self._lock:
            self._driver = self._driver or Driver(self._driver_path)
            return self._driver

    def _on(self, device: int) -> "_Device":
        if device not in self._devices:
            self._devices[device] = _Device(self._load(), device, self._described, self._cubins)
        return self._devices[device]


class _Device:
    """The kernel on one device: its context, its module and its functions."""

    def __init__(
        self, driver: Driver, number: int, described: Description, cubins: Mapping[str, bytes]
    ) -> None:
        self._driver, self._described = driver, described
        count = driver.number("cuDeviceGetCount")
        if not isinstance(number, int) or not 0 <= number < count:
            raise Refused(f"there is no GPU {number}: the driver sees {count}.")
        device = driver.number("cuDeviceGet", number)
        self._sm_count, major, minor = (
            driver.number("cuDeviceGetAttribute", which, device) for which in (SM_COUNT, MAJOR, MINOR)
        )
        self.image = self._fitting(10 * major + minor, f"GPU {number} is a {driver.device_name(device)}")
        self.context = driver.handle("cuDevicePrimaryCtxRetain", device)
        with Current(driver, self.context):
            module = driver.handle("cuModuleLoadData", cubins[self.image.arch])
            self._functions = {
                launch.entry: driver.handle("cuModuleGetFunction", module, launch.entry.encode())
                for launch in self.image.launches
            }
        self._shared_bytes: dict[int, int] = {}  # allowed so far, by function
        self.zeros = Zeros(driver, self.context)

    def _fitting(self, capability: int, device: str) -> Image:
        """The image for the nearest architecture that the device runs."""
        fitting = [image for image in self._described.images if image.runs_on(capability)]
        if not fitting:
            have = ", ".join(image.arch for image in self._described.images)
            raise Refused(
                f"{self._described.name} was compiled for {have}; {device} (sm_{capability}): export it for "
                "that GPU."
            )
        return max(fitting, key=lambda image: image.arch)

    def plan(self, call: CheckedCall) -> Plan:
        """The plan; the functions are allowed what it needs."""
        described, image = self._described, self.image
        steps = steps_of(image, call.sizes, self._functions, name=described.name)
        with Current(self._driver, self.context):
            for step in steps:
                self._make_room(step)
        made: Plan = described.form.plan(
            self._driver,
            self.context,
            name=described.name,
            form=described.form,
            steps=steps,
            encoders=[(each.of, encoder_of(self._driver, each, call)) for each in image.maps],
            arguments=arguments_of(image, described.form, call),
            workspace=(image.workspace_bytes(call.sizes), image.zeroed_bytes(call.sizes)),
        )
        return made

    def _make_room(self, step: PlannedLaunch) -> None:
        driver, function = self._driver, step.function
        if step.shared_bytes > self._shared_bytes.get(function, 0):
            # Shapes share the function: its limit is only ever raised.
            if driver.status("cuFuncSetAttribute", function, DYNAMIC_SHARED, step.shared_bytes):
                raise Refused(
                    f"{step.entry} takes {step.shared_bytes} bytes of shared memory: this GPU has fewer."
                )
            self._shared_bytes[function] = step.shared_bytes
        if step.shared_bytes:
            driver.status("cuFuncSetAttribute", function, CARVEOUT, 100)  # a hint: it may be refused
        if math.prod(step.cluster) > _PORTABLE_CLUSTER:
            driver.call("cuFuncSetAttribute", function, LARGE_CLUSTERS, 1)
        if step.resident and math.prod(step.grid) > (room := self._room(step)):
            blocks = math.prod(step.grid)
            raise Refused(
                f"{step.entry}: its {blocks} blocks wait for one another, and {room} fit on this GPU."
            )

    def _room(self, step: PlannedLaunch) -> int:
        """Blocks of the launch that fit on the device at once."""
        driver, blocks = self._driver, math.prod(step.cluster)
        if blocks > 1:
            return blocks * driver.number("cuOccupancyMaxActiveClusters", step.function, step.config())
        threads = math.prod(step.block)
        what = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        return self._sm_count * driver.number(what, step.function, threads, step.shared_bytes)


def _check_image(image: Image, cubin: bytes | None) -> None:
    if cubin is None:
        raise Refused(f"the cubin for {image.arch} is missing: export the kernel again.")
    if hashlib.sha256(cubin).hexdigest() != image.sha256:
        raise Refused(f"{image.file} is not the cubin that launch.json describes: export the kernel again.")
