"""The hand-written Hopper kernel, tests/kernels/hopper.cu: configurations, texts, launches, tensor maps.

Compiles and runs nothing; the emulator's tests and on_gpu.py read the same records.
"""

import hashlib
import math
from dataclasses import dataclass, fields

from evoflash.evaluation import Candidate
from evoflash.kernels.ef_layer import device_headers_sha
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.forms.dense import Strides, dense_strides
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.space import Genome
from evoflash.specs import load_gpu
from scripts import ROOT

ENTRY = "hopper"
ARCH = "sm_90a"
KERNEL = ROOT / "tests" / "kernels" / "hopper.cu"
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

    def source(self, key: AttentionKey, *, bounded: bool = False) -> str:
        """The text for a compile key. `bounded`: a wait without end becomes a trap."""
        element = {"fp16": "f16", "bf16": "bf16"}[key.dtype]
        genes = {field.name: int(getattr(self, field.name)) for field in fields(self)}
        names = {"head_dim": key.head_dim, "causal": int(key.causal), "gqa_ratio": key.gqa_ratio, **genes}
        lines = [f"#define ELEMENT {element}", *(f"#define {n.upper()} {v}" for n, v in names.items())]
        if bounded:
            lines.append("#define EF_BOUNDED_WAITS")
        return "\n".join([*lines, "#line 1", KERNEL.read_text(encoding="utf-8")])

    def candidate(self, key: AttentionKey, *, bounded: bool = False) -> Candidate:
        """The text as evoflash's compiler takes it."""
        values = tuple(sorted((field.name, getattr(self, field.name)) for field in fields(self)))
        source = self.source(key, bounded=bounded)
        sha = hashlib.sha256((source + device_headers_sha()).encode()).hexdigest()
        return Candidate(Genome(ENTRY, 1, values), key, source, sha)

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
CONFIGURATIONS = {
    "plain": Configuration(),
    "alone": Configuration(consumers=1, producer_warps=1, tma_store=False),
    "one_stage": Configuration(k_stages=1, v_stages=1),
    "uneven_ring": Configuration(consumers=1, k_stages=3, v_stages=2, tile_keys=48, overlap=True),
    "overlap": Configuration(overlap=True),
    "ping_pong": Configuration(overlap=True, ping_pong=True, tile_keys=128),
    "wide": Configuration(overlap=True, ping_pong=True, tile_keys=176),
    "turns_only": Configuration(ping_pong=True, tile_keys=96, tma_store=False),
    "three": Configuration(consumers=3, overlap=True, ping_pong=True, tile_keys=64),
    "three_wide": Configuration(consumers=3, overlap=True, ping_pong=True, tile_keys=128),
    "shared_p": Configuration(shared_p=True),
    "shared_p_overlap": Configuration(shared_p=True, overlap=True, tile_keys=96),
    "multicast": Configuration(cluster=2),
    "multicast_overlap": Configuration(cluster=2, overlap=True, ping_pong=True, tile_keys=128),
    "cluster_of_four": Configuration(consumers=1, cluster=4, producer_warps=1, tma_store=False),
}
