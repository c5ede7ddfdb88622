"""What a GPU process keeps between candidates: test inputs with their references, memory, benches.

The processes of one search share test inputs and right answers through a folder, and the large ones through
memory. Checks and times nothing.
"""

import os
import tempfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from evoflash.gpu.arena import Arena, Original, keep_on_device
from evoflash.gpu.memory import has_room
from evoflash.gpu.process.check_batch import CheckBatch, CheckPlan, plan_of, size_plan_of
from evoflash.gpu.process.device_reference import applies
from evoflash.gpu.sharing import beside_others
from evoflash.gpu.timing.benchmark import Bench
from evoflash.operation import ExpectedOutputs, TestInput, Workload, operation_of
from evoflash.specs import GpuSpec
from evoflash.validation.cases import get_or_make, place_of

_BATCH_BYTES = 4 << 30  # of slabs, their images and references
_REARRANGED = 0x5245  # a random stream of its own


def precompute_references(checks: tuple[Workload, ...], timed: tuple[Workload, ...], seed: int) -> None:
    """Compute what candidates are compared with beforehand: the process is then as quick as a used one."""
    for workload in checks:
        plan(workload, seed)
    for workload in timed:
        for name in names_of_large(workload):
            large(workload, name, seed)


@lru_cache(maxsize=64)
def plan(workload: Workload, seed: int) -> CheckPlan:
    """The launches that check a kernel on a small workload."""
    return plan_of(workload, seed)


@lru_cache(maxsize=2)  # a search's, and that of a finalist's hidden shapes
def check_batch(workloads: tuple[Workload, ...], seed: int) -> CheckBatch | None:
    """The checks on these workloads as one batch; None where they take too much memory, or the device has too
    little to spare.
    """
    plans = [plan(workload, seed) for workload in workloads]
    size_bytes = sum(each.size_bytes for each in plans)
    if size_bytes > _BATCH_BYTES or not has_room(size_bytes) or not all(x.is_comparable for x in plans):
        return None
    with beside_others():
        return CheckBatch(plans)


@lru_cache(maxsize=4)
def size_batch(workload: Workload, seed: int) -> CheckBatch | None:
    """The checks at the benchmark's shape, where the device computes what is right; None where it cannot, or
    has too little memory to spare.
    """
    cases = [large(workload, name, seed) for name in operation_of(workload).inputs.at_size]
    drawn = [inputs for inputs, _ in cases]
    if not applies(workload):
        return None
    if (len(drawn) + 2) * sum(s.size_bytes for s in operation_of(workload).tensors(workload)) > _BATCH_BYTES:
        return None
    plan = size_plan_of(workload, drawn, np.random.default_rng([seed, _REARRANGED]))
    if not plan.is_comparable or not has_room(plan.size_bytes):
        return None
    with beside_others():
        return CheckBatch([plan], [expected for _, expected in cases])


# A large test input is up to a gigabyte of host memory: few are kept.
@lru_cache(maxsize=12)
def large(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    """A timed workload's test input, and what is right at a sample of rows."""
    return get_or_make(key_of_large(workload, name, seed), lambda: _large(workload, name, seed))


def names_of_large(workload: Workload) -> tuple[str, ...]:
    """The test inputs of a workload that is timed."""
    names = operation_of(workload).inputs
    return *names.at_size, names.after_timing


def key_of_large(workload: Workload, name: str, seed: int) -> object:
    """Under which large() shares it with other processes."""
    return "large", workload, name, seed


def _large(workload: Workload, name: str, seed: int) -> tuple[TestInput, ExpectedOutputs]:
    operation = operation_of(workload)
    drawn: TestInput = operation.draw(name, workload, seed=seed)
    where = operation.sample(workload, np.random.default_rng([seed, zlib.crc32(name.encode())]))
    return drawn, operation.expect(workload, drawn, where=where)


@lru_cache(maxsize=12)
def inputs(workload: Workload, name: str, seed: int) -> TestInput | Original:
    """A large test input, on the device where there is room. Make the workload's arena first."""
    drawn, _ = large(workload, name, seed)
    with beside_others():
        return keep_on_device(drawn)


def verify_inputs(workload: Workload, names: tuple[str, ...], seed: int) -> None:
    """Raises MemoryFaultError when a kernel wrote into what is kept of these test inputs on the device.

    For when an output was wrong: copies that a kernel before it spoilt would fail every kernel from now on.
    """
    for name in names:
        kept = inputs(workload, name, seed)
        if isinstance(kept, Original):
            kept.verify()


@lru_cache(maxsize=64)
def arena(workload: Workload) -> Arena:
    """Guarded device memory for a workload."""
    with beside_others():
        return Arena(workload, rng=np.random.default_rng())


def strided_arena(workload: Workload) -> Arena:
    """Memory whose tensors are not dense; made anew each time, because few kernels are asked one by one."""
    with beside_others():
        return Arena(workload, rng=np.random.default_rng(), is_strided=True)


@lru_cache(maxsize=4)
def bench(workload: Workload, spec: GpuSpec, seed: int) -> Bench:
    """The input sets that a workload is timed on."""
    with beside_others():  # gigabytes of copies: a kernel timed meanwhile would look twice as slow
        made = Bench(workload, spec=spec, seed=seed)
        for each in made.arenas:
            if each.inputs is not None and not isinstance(each.inputs, Original):
                each.load(keep_on_device(each.inputs))
    return made


class SharedCases:
    """The folder, as long as this lives.

    What is up to gigabytes lies in memory files, which end with this process however it ends; the folder has
    links to them.
    """

    def __init__(self, timed: tuple[Workload, ...], seed: int) -> None:
        """`timed` are the workloads of which inputs are large."""
        self._folder = tempfile.TemporaryDirectory(prefix="evoflash-cases-", ignore_cleanup_errors=True)
        self._files: list[int] = []
        for workload in timed:
            for name in names_of_large(workload):
                self._hold(place_of(self.path, key_of_large(workload, name, seed)))

    @property
    def path(self) -> str:
        """The folder, for cases.share_in()."""
        return self._folder.name

    def _hold(self, place: Path) -> None:
        if place.is_symlink():  # the same workload twice
            return
        self._files.append(os.memfd_create("evoflash-case"))
        place.symlink_to(f"/proc/{os.getpid()}/fd/{self._files[-1]}")

    def close(self) -> None:
        """Let go of everything; processes that have mapped some of it keep that until they end."""
        while self._files:
            os.close(self._files.pop())
        self._folder.cleanup()
