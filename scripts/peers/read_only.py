"""A contender that only reads K and V: the time that the memory's bandwidth allows a decoding step.

Judges nothing. Its kernel, read_only.cu, is compiled as candidates are.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.gpu.arena import Arena
from evoflash.gpu.comparisons import cubin_path
from evoflash.gpu.launcher import LoadedKernel, cupy
from evoflash.gpu.timing.benchmark import Bench, measure
from evoflash.gpu.timing.protocols import SHORT, TimingProtocol
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionWorkload

NAME = "read_only"
_SOURCE = Path(__file__).with_name("read_only.cu")
_THREADS, _GROUP_BYTES = 512, 16
_BLOCKS_PER_SM = (1, 2, 4, 8, 16, 32)
_NEVER = np.uint32(0x9E3779B9)


class ReadOnly:
    """Reads every byte of K and V of an input set, by a grid of so many blocks."""

    name = NAME

    def __init__(self, arch: str, blocks: int) -> None:
        launch = LaunchConfig(NAME, (blocks, 1, 1), (_THREADS, 1, 1), 0)
        self.blocks = blocks
        self._kernel = LoadedKernel(cubin_path(arch, _SOURCE), (launch,))
        self._answer = cupy().zeros(1, dtype=np.uint32)

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See benchmark.Contender."""
        arguments = [self._arguments(arena) for arena in bench.arenas]
        with bench.stream:
            bench.stream.begin_capture()
            try:
                for at in order:
                    self._kernel.enqueue(arguments[at])
            finally:
                graph = bench.stream.end_capture()
        graph.upload(bench.stream)
        return lambda: graph.launch(bench.stream)

    def _arguments(self, arena: Arena) -> tuple[Any, ...]:
        first, second = (arena.buffers[name] for name in "KV")
        groups = np.int64(first.device_bytes.nbytes // _GROUP_BYTES)
        pointers = (np.uint64(first.pointer), np.uint64(second.pointer))
        return (*pointers, groups, _NEVER, np.uint64(self._answer.data.ptr))


def bytes_read(workload: AttentionWorkload) -> int:
    """What the contender reads of an input set."""
    return 2 * 2 * workload.batch * workload.kv_heads * workload.seq_kv * workload.head_dim


def fastest(bench: Bench, arch: str, protocol: TimingProtocol, *, sm_count: int) -> ReadOnly:
    """The grid that reads this bench's K and V in the least time."""
    tried = [ReadOnly(arch, sm_count * blocks) for blocks in _BLOCKS_PER_SM]
    return min(tried, key=lambda each: measure(each, bench, protocol, rule=SHORT)[0].median_us)
