"""The corpus of planted faults as cases for a GPU: texts, buffers, arguments, launches. Runs nothing.

A case is a kernel of tests/faults with one fault, or as it is. Its arguments are in the words of runner.cpp.
"""

import tomllib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.launch import LaunchConfig, geometry
from evoflash.launch import TensorMapSpec as Map
from evoflash.operations.attention import inputs
from evoflash.operations.attention.forms.dense import arguments, tensors
from evoflash.operations.attention.workload import AttentionWorkload, parse_workload
from evoflash.specs import load_gpu
from scripts.hopper_kernel.cases import CONFIGURATIONS, TensorMap
from scripts.sanitizer import fault_corpus
from scripts.sanitizer.fault_corpus import Fault, Found

Array = np.ndarray[Any, Any]
Record = dict[str, Any]

ARCH = "sm_90a"
SEED = 1
# Enumerations of cuda.h; bf16 travels as f16: nothing is computed on the way.
_FLOAT16, _PROMOTE_256B, _ZEROS_OUTSIDE = 6, 3, 0
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: _PROMOTE_256B}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


@dataclass(frozen=True, slots=True)
class Key:
    """Which case: a kernel of the corpus, the fault's name or "", and the inputs."""

    kernel: str
    fault: str
    problem: str  # "" for kernels with arguments of their own
    trial: str

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.fault or ' '.join(('right', self.problem, self.trial)).strip()}"

    @property
    def right(self) -> "Key":
        """The same without the fault."""
        return replace(self, fault="")


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Global memory of a case."""

    name: str
    size_bytes: int
    data: Array | None = None  # None: poisoned
    is_output: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel's text and everything that a launch of it needs."""

    text: str
    launches: tuple[LaunchConfig, ...]
    buffers: tuple[Buffer, ...]
    words: tuple[str, ...]  # the arguments, in the runner's words
    workload: AttentionWorkload | None = (
        None  # what its output is judged by; None: by the output of the right kernel
    )


def kernels() -> tuple[str, ...]:
    """The corpus's files."""
    return tuple(fault_corpus.kernels())


def specification(kernel: str) -> Record:
    """The head of a file of the corpus."""
    return tomllib.loads((fault_corpus.FAULTS / f"{kernel}.toml").read_text(encoding="utf-8"))


def keys(kernels: tuple[str, ...]) -> list[Key]:
    """Every fault of these kernels, and before them every right kernel on the inputs of its faults."""
    faulty = []
    for kernel in kernels:
        spec = specification(kernel)
        for fault in fault_corpus.faults(kernel):
            problem = fault.problem or spec.get("problem", "")
            faulty.append(Key(kernel, fault.name, problem, fault.trial or "normal" if problem else ""))
    return [*dict.fromkeys(key.right for key in faulty), *faulty]


def fault_of(key: Key) -> Fault | None:
    return next((fault for fault in fault_corpus.faults(key.kernel) if fault.name == key.fault), None)


def in_emulator(kernel: str, fault: Fault | None) -> Found:
    """The corpus's own run of a kernel, with copies that land as late as they may."""
    return fault_corpus.run(kernel, fault, delivery="lazy")


def expected(key: Key) -> str:
    """What the corpus says that the emulator calls the fault; "" for a right kernel."""
    fault = fault_of(key)
    return str(fault.expect_kind) if fault else ""


def case(key: Key) -> Case:
    """The case in full."""
    spec, fault = specification(key.kernel), fault_of(key)
    if "family" in spec:
        made = _family_case(spec, key)
    elif "configuration" in spec:
        made = _hopper_case(spec, key, getattr(fault, "o_swizzle", 128))
    else:
        made = _file_case(spec)
    return replace(made, text=fault.apply(made.text)) if fault else made


def _family_case(spec: Record, key: Key) -> Case:
    family, gpu = load_family(spec["family"]), load_gpu(spec["gpu"])
    workload = parse_workload(key.problem)
    compile_key = workload.compile_key(gpu.arch)
    genome = family.space((compile_key,), gpu).genome(spec["values"])
    room = replace(gpu, sm_count=0) if spec.get("crowded") else gpu
    launches = family.launches(genome, workload, room)
    made = attention(render(genome, compile_key, gpu).source, launches, workload, key.trial)
    shapes = {each.name: each.shape for each in tensors(workload)}
    maps = (_map_of(each, shapes[each.of]) for each in launches[0].maps)
    return replace(made, words=(*maps, *made.words))


def _map_of(wanted: Map, shape: tuple[int, ...]) -> str:
    """A tensor map of a dense tensor of the family's, as _map_words()."""
    strides = [2 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]
    sizes, others, box = geometry(wanted, shape, strides)
    numbers = ("QKVO".index(wanted.of), _FLOAT16, len(sizes), *sizes, *others, *box)
    modes = (_SWIZZLES[wanted.swizzle], _PROMOTIONS[wanted.l2_promotion], _ZEROS_OUTSIDE)
    return " ".join(("map", *map(str, (*numbers, *modes))))


def _hopper_case(spec: Record, key: Key, o_swizzle: int) -> Case:
    """The hand-written Hopper kernel: as attention(), with its tensor maps before the other arguments."""
    configuration, workload = CONFIGURATIONS[spec["configuration"]], parse_workload(key.problem)
    text = configuration.source(workload.compile_key(ARCH)).replace("#line 1\n", "")
    made = attention(text, (configuration.launch(workload),), workload, key.trial)
    maps = configuration.maps(workload, (0, 0, 0, 0))
    swizzles = (128, 128, 128, o_swizzle)
    words = (_map_words(buffer, each, swizzles[buffer]) for buffer, each in enumerate(maps))
    return replace(made, words=(*words, *made.words))


def _map_words(buffer: int, each: TensorMap, swizzle: int) -> str:
    numbers = (buffer, _FLOAT16, len(each.sizes), *each.sizes, *each.strides_bytes, *each.box)
    modes = (_SWIZZLES[swizzle], _PROMOTE_256B, _ZEROS_OUTSIDE)
    return " ".join(("map", *map(str, (*numbers, *modes))))


def attention(
    text: str, launches: tuple[LaunchConfig, ...], workload: AttentionWorkload, trial_name: str
) -> Case:
    """A kernel of the attention ABI on one trial's inputs."""
    trial = inputs.draw(trial_name, workload, seed=SEED)
    rows = workload.batch * workload.heads * workload.seq_q
    buffers = [
        *(Buffer(name, x.nbytes, x) for name, x in (("Q", trial.q), ("K", trial.k), ("V", trial.v))),
        Buffer("O", trial.q.nbytes, is_output=True),
        Buffer("LSE", 4 * rows, is_output=True),
    ]
    scratch = launches[0].workspace_bytes
    if scratch:
        buffers.append(Buffer("workspace", scratch))
    given = arguments(workload, (0, 0, 0, 0, 0), workspace=scratch)
    last = len(given) - 1
    places = {i: i for i in range(5)} | ({last: 5} if scratch else {})
    words = tuple(
        f"pointer {places[i]}" if i in places else f"bytes {value.tobytes().hex()}"
        for i, value in enumerate(given)
    )
    return Case(text, launches, tuple(buffers), words, workload)


def _file_case(spec: Record) -> Case:
    text = "".join(f"#define {define}\n" for define in spec.get("defines", ()))
    text += (fault_corpus.KERNELS / spec["file"]).read_text(encoding="utf-8")
    cluster = tuple(spec.get("cluster", (1, 1, 1)))
    launch = LaunchConfig(
        spec["entry"], tuple(spec["grid"]), tuple(spec["block"]), spec["smem_bytes"], cluster=cluster
    )
    rng = np.random.default_rng(SEED)
    buffers: list[Buffer] = []
    words = []
    for each in spec["argument"]:
        if "value" in each:
            words.append(f"bytes {np.array(each['value'], each['dtype']).tobytes().hex()}")
        else:
            words.append(f"pointer {len(buffers)}")
            buffers.append(_array(each, rng))
    return Case(text, (launch,), tuple(buffers), tuple(words))


def _array(spec: Record, rng: np.random.Generator) -> Buffer:
    kind, shape, fill = np.dtype(spec["dtype"]), spec["shape"], spec.get("fill", 0)
    size_bytes = int(np.prod(shape)) * kind.itemsize
    writable = spec.get("writable", False)
    if fill == "poison":
        return Buffer(spec["array"], size_bytes, is_output=writable)
    if fill == "normal":
        data = np.asarray(rng.standard_normal(shape)).astype(kind)
    elif fill == "range":
        data = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    else:
        data = np.full(shape, fill, kind)
    return Buffer(spec["array"], size_bytes, data, writable)
