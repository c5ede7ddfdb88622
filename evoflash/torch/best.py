"""Chooses the kernel that a call in PyTorch gets: of those measured on its GPU, that timed nearest its shape.

The kernels are the database's and the archive's. Only kernels that were measured on such a GPU count,
compiled for the very dtype, mask, head size and ratio of heads. Compiles with NVRTC; the runtime launches.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cache
from os.path import expanduser
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evoflash.app.kernel_lookup import installed_versions
from evoflash.champions import champion_today, champions
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import artefact
from evoflash.operation import operation_of
from evoflash.paths import default_database
from evoflash.problem import Problem, parse_problem
from evoflash.runtime.launch import Kernel, Refused
from evoflash.runtime.torch_call import Call
from evoflash.runtime.torch_op import Attention
from evoflash.space import Genome
from evoflash.specs import GpuSpec, known_gpus, load_gpu
from evoflash.store.store import open_store
from evoflash.workload import Workload

_COMPILED: dict[Hashable, Attention] = {}  # by genome and compile key


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """A kernel that was measured: on what, and how fast."""

    genome: Genome
    workload: Workload
    us: float
    evaluation: Evaluation | None  # None: of the archive


class Best(Attention):
    """Attention of one dtype and one mask, by whichever kernel is best for the shape of a call."""

    def __init__(self, dtype: str, *, causal: bool) -> None:
        self._dtype_name = dtype
        self._kernels: dict[tuple[Any, ...], Attention] = {}
        self._finding = threading.RLock()
        mask = "causal" if causal else "full"
        self.begin(f"evoflash_best_{dtype}_{mask}", dtype, causal=causal)

    @property
    def serves(self) -> str:
        """The tensors that it takes, in words."""
        return f"{self._dtype_name}, {'causal' if self.causal else 'no mask'}, what kernels are known for"

    def why_not_for(self, q: Tensor, k: Tensor) -> str:
        """Nothing: whether there is a kernel, finding it says."""
        return ""

    def call_of(self, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scale: float | None) -> Call:
        """That of the kernel for these shapes. Refused where there is none."""
        return self.kernel_for(q, k).call_of(q, k, v, out, scale)

    def kernel_for(self, q: Tensor, k: Tensor) -> Attention:
        """The kernel for tensors (batch, heads, seq, head_dim). Refused where none is known or compiles."""
        key = (*q.shape, k.shape[1], k.shape[2], q.get_device())
        with self._finding:
            if key not in self._kernels:
                try:
                    self._kernels[key] = self._find_kernel(key)
                except EvoflashError as error:
                    raise Refused(str(error)) from None
            return self._kernels[key]

    def _find_kernel(self, key: tuple[int, ...]) -> Attention:
        batch, heads, seq_q, head_dim, kv_heads, seq_kv, device = key
        gpu = gpu_of(torch.cuda.get_device_name(device))
        mask = "causal" if self.causal else "full"
        wanted = parse_problem(
            f"b={batch},h={heads},hkv={kv_heads},sq={seq_q},skv={seq_kv},d={head_dim},"
            f"dtype={self._dtype_name},{mask}"
        )
        return build_callable(nearest(wanted.workloads[0], gpu), gpu)


def gpu_of(device_name: str) -> GpuSpec:
    """The known GPU that the driver calls so; UsageError where none is."""
    specs = (load_gpu(name) for name in known_gpus())
    found = next((spec for spec in specs if device_name in spec.device_names), None)
    if found is None:
        raise UsageError(f"no kernel was measured on a '{device_name}': run `evoflash search` there.")
    return found


def nearest(wanted: Workload, gpu: GpuSpec) -> MeasuredKernel:
    """The kernel compiled for the same key that was timed on the nearest shape, the database's before the
    archive's, then the fastest. UsageError where there is none.
    """
    key = wanted.compile_key(gpu.arch)
    fitting = [known for known in known_kernels(gpu.name) if known.workload.compile_key(gpu.arch) == key]
    if not fitting:
        raise UsageError(
            f"no measured kernel is known for {key} on {gpu.name}: run `evoflash search --problem {wanted}`."
        )
    distance = operation_of(wanted).distance
    return min(
        fitting, key=lambda known: (distance(wanted, known.workload), known.evaluation is None, known.us)
    )


@cache
def known_kernels(gpu_name: str) -> tuple[MeasuredKernel, ...]:
    """Every kernel measured on such a GPU that is valid today; read once for a process."""
    gpu = load_gpu(gpu_name)
    return (*_stored_kernels(default_database(), gpu), *_archived_kernels(gpu))


def _archived_kernels(gpu: GpuSpec) -> Iterator[MeasuredKernel]:
    for champion in champions(gpu.name):
        problem = parse_problem(champion.problem)
        today = champion_today(problem, gpu)
        if today is not None and (workload := _one(problem)) is not None:
            yield MeasuredKernel(today.genome, workload, today.us, None)


def _stored_kernels(db: str, gpu: GpuSpec) -> list[MeasuredKernel]:
    if "://" not in db and not Path(expanduser(db)).exists():
        return []
    found = []
    with open_store(db, read_only=True) as store:
        versions = installed_versions(store)
        for summary in store.problems():
            if summary.gpu == gpu.name and summary.basis is Basis.MEASURED:
                measured = Basis.MEASURED
                best = store.best(summary.problem, gpu.name, basis=measured, versions=versions)
                workload = _one(parse_problem(summary.problem))
                if best is not None and workload is not None and best.score_us is not None:
                    found.append(MeasuredKernel(best.genome, workload, best.score_us, best))
    return found


def _one(problem: Problem) -> Workload | None:
    """The problem's only workload."""
    return problem.workloads[0] if len(problem.workloads) == 1 else None


def build_callable(known: MeasuredKernel, gpu: GpuSpec) -> Attention:
    """The kernel as a function of tensors. UsageError where its family or the compiler refuses it."""
    key = known.genome.id, known.workload.compile_key(gpu.arch)
    if key not in _COMPILED:
        made = artefact(ExportRequest(known.genome, Problem((known.workload,)), gpu, known.evaluation))
        _COMPILED[key] = Attention(Kernel(made.description, made.images))
    return _COMPILED[key]
