"""The hand-written Hopper kernel, tests/kernels/hopper.cu: its configurations, and runs in the emulator."""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from places import KERNELS
from tables import data

from evoflash.emulator import launch as emulator
from evoflash.emulator.launch import Emulation, Memory
from evoflash.emulator.tensor_map import tensor_map
from evoflash.evaluation import Candidate, Verdict
from evoflash.kernels import gxx
from evoflash.kernels.ef_layer import source_sha
from evoflash.launch import LaunchConfig
from evoflash.operation import Delivery, Schedule
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.forms.dense import Strides, arguments, dense_strides
from evoflash.operations.attention.inputs import AttentionInputs
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.validation.cases import case
from evoflash.validation.validator import judge

ENTRY = "hopper"
ARCH = "sm_90a"
KERNEL = KERNELS / "hopper.cu"
GROUP_ROWS = 64  # query rows of a warpgroup
PANEL = 64  # columns of a tile's panel: 128 bytes, the width of the swizzle
_WARP = 32
_BARRIER_BYTES = 8
# Of a consumer's thread, by the number of consumers: with a producer that gives registers away, and without.
_REGISTERS = {4: {1: 256, 2: 240, 3: 160}, 1: {1: 255, 2: 168, 3: 128}}
_OTHER_REGISTERS = 24  # addresses and row statistics


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What a tensor map says of a 4-dimensional tensor of 16-bit elements, swizzled by 128 bytes.

    Dimensions are (head_dim, row, head, batch), the contiguous one first; the other three have strides.
    """

    pointer: int
    sizes: tuple[int, int, int, int]
    strides_bytes: tuple[int, int, int]
    box: tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Configuration:
    """A value for each of the kernel's #defines that is not the workload's."""

    consumers: int = 2
    producer_warps: int = 4
    tile_keys: int = 64
    k_stages: int = 2
    v_stages: int = 2
    overlap: bool = False
    ping_pong: bool = False
    shared_p: bool = False
    cluster: int = 1
    tma_store: bool = True

    def source(self, key: AttentionKey) -> str:
        """The text for a compile key."""
        element = {"fp16": "f16", "bf16": "bf16"}[key.dtype]
        genes = {field.name: int(getattr(self, field.name)) for field in fields(self)}
        names = {"head_dim": key.head_dim, "causal": int(key.causal), "gqa_ratio": key.gqa_ratio, **genes}
        lines = [f"#define ELEMENT {element}", *(f"#define {n.upper()} {v}" for n, v in names.items())]
        return "\n".join([*lines, "#line 1", KERNEL.read_text(encoding="utf-8")])

    def candidate(self, key: AttentionKey) -> Candidate:
        """The text as evoflash's compiler takes it."""
        values = tuple(sorted((field.name, getattr(self, field.name)) for field in fields(self)))
        source = self.source(key)
        return Candidate(Genome(ENTRY, 1, values), key, source, source_sha(source))

    def launch(self, workload: AttentionWorkload) -> LaunchConfig:
        """Its one launch: query blocks in whole clusters, heads, batch."""
        blocks = -(-workload.seq_q // (GROUP_ROWS * self.consumers))
        return LaunchConfig(
            ENTRY,
            grid=(-(-blocks // self.cluster) * self.cluster, workload.heads, workload.batch),
            block=(4 * _WARP * self.consumers + _WARP * self.producer_warps, 1, 1),
            smem_bytes=self.smem_bytes(workload.head_dim),
            cluster=(self.cluster, 1, 1),
        )

    def fits(self, head_dim: int) -> bool:
        """Whether a consumer's registers hold scores, output and P, and a block's shared memory the tiles."""
        live = self.tile_keys // 2 + head_dim // 2 + self.tile_keys // 4 + _OTHER_REGISTERS
        room = _REGISTERS[self.producer_warps][self.consumers]
        return live <= room and self.smem_bytes(head_dim) <= load_gpu("h200").smem_per_block

    def smem_bytes(self, head_dim: int) -> int:
        """Q, the rings of K and V, P where it passes through shared memory, and the barriers."""
        row_bytes = 2 * head_dim
        rows = GROUP_ROWS * self.consumers + self.tile_keys * (self.k_stages + self.v_stages)
        score_bytes = 2 * GROUP_ROWS * PANEL * math.ceil(self.tile_keys / PANEL) * self.consumers
        barriers = 1 + 2 * (self.k_stages + self.v_stages)
        return rows * row_bytes + self.shared_p * score_bytes + barriers * _BARRIER_BYTES

    def maps(
        self,
        workload: AttentionWorkload,
        pointers: tuple[int, int, int, int],
        strides: tuple[Strides, Strides, Strides, Strides] | None = None,
    ) -> tuple[TensorMap, ...]:
        """The maps of Q, K, V and, where it leaves by TMA, O, in the kernel's order; strides in elements."""
        w, share = workload, self.tile_keys // self.cluster
        query, key = (w.head_dim, w.seq_q, w.heads, w.batch), (w.head_dim, w.seq_kv, w.kv_heads, w.batch)
        shapes = ((query, GROUP_ROWS), (key, share), (key, share), (query, GROUP_ROWS))
        all_maps = tuple(
            TensorMap(pointer, sizes, (2 * row, 2 * head, 2 * batch), (PANEL, rows, 1, 1))
            for pointer, (sizes, rows), (batch, head, row) in zip(
                pointers, shapes, strides or dense_strides(w), strict=True
            )
        )
        return all_maps if self.tma_store else all_maps[:3]


# What is tried, by name; each differs from its neighbours in what the hardware is asked to do.
CONFIGURATIONS = {name: Configuration(**values) for name, values in data(__file__, "CONFIGURATIONS").items()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One launch: what the emulator reported, and what the validator says of the output."""

    emulation: Emulation
    verdict: Verdict


def run_hopper(
    text: str,
    configuration: Configuration,
    workload: AttentionWorkload,
    *,
    trial: str = "normal",
    delivery: Delivery = "lazy",
    schedule: Schedule = "random",
    seed: int = 1,
    heads_inside: bool = False,
    without: tuple[str, ...] = (),
    o_swizzle: Literal[0, 128] = 128,
    cpu_limit_s: float = 10.0,
) -> Outcome:
    """Build `text`, which Configuration.source made for the workload, and run it on a trial's inputs.

    `heads_inside`: tensors lie in memory as (batch, row, head, head_dim). `without`: outputs left out.
    `o_swizzle`: of the tensor map by which O leaves, in bytes.
    """
    library = gxx.build(text, name="hopper")
    given, expected = case(workload, trial, 1)
    assert isinstance(given, AttentionInputs)
    with Memory() as memory:
        order = (0, 2, 1, 3) if heads_inside else (0, 1, 2, 3)
        inputs = [
            memory.array(name, x.transpose(order).shape, x.dtype, fill=x.transpose(order))
            for name, x in (("Q", given.q), ("K", given.k), ("V", given.v))
        ]
        out = memory.array("O", inputs[0].shape, np.uint16, writable=True, unset=True, fill=0xFFFF)
        lse = memory.array("LSE", given.q.shape[:3], np.float32, writable=True, unset=True, fill=np.nan)
        of_q, of_k, of_v, of_o = (_strides(array.transpose(order)) for array in (*inputs, out))
        strides = (of_q, of_k, of_v, of_o)
        q, k, v, o, sums = (array.ctypes.data for array in (*inputs, out, lse))
        maps = [
            tensor_map(
                m.pointer, m.sizes, m.strides_bytes, m.box, swizzle=128 if m.pointer != o else o_swizzle
            )
            for m in configuration.maps(workload, (q, k, v, o), strides)
        ]
        emulation = emulator.run_launch(
            library,
            configuration.launch(workload),
            [*maps, *arguments(workload, (q, k, v, o, 0 if "LSE" in without else sums), strides)],
            delivery=delivery,
            schedule=schedule,
            seed=seed,
            cpu_limit_s=cpu_limit_s,
        )
        result = dense.output(out.transpose(order).copy(), None if "LSE" in without else lse.copy())
    return Outcome(emulation, judge(workload, [(given, expected, result)]))


def _strides(tensor: np.ndarray[Any, Any]) -> Strides:
    batch, head, row, _ = (stride // tensor.itemsize for stride in tensor.strides)
    return batch, head, row
