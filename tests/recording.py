"""The recording driver of tests/runtime/recording_driver.cpp: built, loaded, and what was asked of it.

It is a CUDA driver in its functions alone: it writes down every launch, and runs nothing.
"""

import ctypes
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from places import TESTS

from evoflash.gpu import driver as gpu_driver
from evoflash.launch import geometry
from evoflash.operations.attention.forms import dense
from evoflash.operations.paged.form import LAYOUT
from evoflash.runtime.driver import Driver

_SOURCE = TESTS / "runtime" / "recording_driver.cpp"


def build(folder: Path) -> Path:
    """The library, compiled by g++."""
    library = folder / "librecording.so"
    flags = ("-shared", "-fPIC", "-O1", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread")
    subprocess.run(["g++", *flags, "-o", str(library), str(_SOURCE)], check=True)
    return library


@dataclass(frozen=True)
class Launched:
    """One launch as the driver was asked for it."""

    what: str  # entry, grid, block, shared memory and stream
    attributes: tuple[str, ...]
    arguments: tuple[bytes, ...]


class Recorder:
    """The loaded library. One machine at a time: tests that use it share the process's copy."""

    def __init__(self, library: Path) -> None:
        self.path = str(library)
        self.library = ctypes.CDLL(self.path)
        self.reset()

    def reset(self) -> None:
        self.machine()
        self.library.recording_slow(0)
        self.library.recording_silent(0)
        self.library.recording_clear()

    def machine(self, *, devices=1, capability=90, sms=132, blocks_per_sm=2, shared=232_448) -> None:
        self.library.recording_machine(devices, capability, sms, blocks_per_sm, shared)

    def expects(self, sizes) -> None:
        """How many bytes each argument of a launch has: a driver reads that in the cubin."""
        self.library.recording_arguments(len(sizes), (ctypes.c_int * len(sizes))(*sizes))

    def text(self) -> str:
        room = ctypes.create_string_buffer(1 << 22)
        self.library.recording_text(room, len(room))
        return room.value.decode()

    def launches(self) -> list[Launched]:
        found = re.findall(r"^launch (.*)\n((?:attribute .*\n)*)arguments(.*)\n", self.text(), re.MULTILINE)
        return [
            Launched(what, tuple(extra.splitlines()), tuple(map(bytes.fromhex, arguments.split())))
            for what, extra, arguments in found
        ]


def sizes_of(image) -> list[int]:
    """Bytes of the arguments that launch.json lists for an image, tensor maps first."""
    of_kind = {"pointer": 8, "int64": 8, "int32": 4, "float32": 4, "struct": LAYOUT.itemsize}
    return [128] * len(image["tensor_maps"]) + [of_kind[text.split()[0]] for text in image["arguments"]]


def sent_by_evoflash(recorder, monkeypatch, launches, workload, pointers, *, strides, workspace, stream):
    """What evoflash.gpu asks of the driver for the same call."""
    monkeypatch.setattr(gpu_driver, "driver", lambda: Driver(recorder.path))
    functions = {launch.entry: function_of(recorder, launch.entry) for launch in launches}
    specs = {spec.name: spec for spec in dense.tensors(workload)}
    addresses = dict(zip(("Q", "K", "V", "O", "LSE"), pointers, strict=True))
    by_tensor = dict(zip("QKVO", strides, strict=True))
    recorder.library.cuCtxPushCurrent_v2(ctypes.c_void_p(0x1000 + 70))
    maps = [
        gpu_driver.encode_map(
            addresses[wanted.of],
            *geometry(wanted, specs[wanted.of].shape, [2 * s for s in (*by_tensor[wanted.of], 1)]),
            dtype=workload.dtype,
            swizzle=wanted.swizzle,
            l2_promotion=wanted.l2_promotion,
        )
        for wanted in launches[0].maps
    ]
    plain = dense.arguments(workload, pointers, strides, workspace=workspace)
    recorder.library.recording_clear()
    for launch in launches:
        given = gpu_driver.pack_arguments([*maps, *plain])
        assert gpu_driver.enqueue(functions[launch.entry], launch, given, stream=stream) == 0
    recorder.library.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
    return recorder.launches()


def function_of(recorder, entry) -> int:
    function = ctypes.c_void_p()
    recorder.library.cuModuleGetFunction(
        ctypes.byref(function), ctypes.c_void_p(0x1000 + 70), ctypes.c_char_p(entry.encode())
    )
    return function.value or 0


def number(argument: bytes) -> int:
    """A pointer or an integer among the arguments."""
    return int(np.frombuffer(argument, np.int64 if len(argument) == 8 else np.int32)[0])
