"""Compiles a genome for each architecture and writes launch.json, which says how its kernels are launched.

evoflash/runtime launches what this describes; docs/exports.md documents the format. Launches nothing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.evaluation import Build
from evoflash.exports.claims import as_checked, claims
from evoflash.exports.exported import ExportRequest
from evoflash.kernels.expression import of_sizes
from evoflash.kernels.family import load_family
from evoflash.kernels.header import KernelSpec
from evoflash.kernels.nvrtc import FLAGS, compile_candidate, first_error, nvrtc_version
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import reproducing_command
from evoflash.launch import LaunchConfig, TensorMapSpec
from evoflash.operation import LaunchForm, operation_of
from evoflash.runtime.description import FORMAT, VERSION
from evoflash.space import Genome
from evoflash.specs import GpuSpec
from evoflash.workload import CompileKey, Workload


@dataclass(frozen=True, slots=True)
class Artefact:
    """What evoflash.runtime.launch.Kernel takes: launch.json, and the cubins by architecture."""

    description: dict[str, Any]
    images: dict[str, bytes]


def file_names(stem: str, exported: ExportRequest) -> dict[str, str]:
    """A cubin's file name for each architecture."""
    archs = [gpu.arch for gpu in exported.gpus]
    return {arch: f"{stem}.cubin" if len(archs) == 1 else f"{stem}.{arch}.cubin" for arch in archs}


def artefact(
    exported: ExportRequest, files: Mapping[str, str] | None = None, *, command: str = ""
) -> Artefact:
    """Compiles and describes the kernel. `files` names the cubins by architecture; `command` makes the export
    again, by default its source.

    UsageError where the problem needs several kernels, leaves as C++ alone, or the compiler refuses it.
    """
    form_of(exported.compile_key)
    names = files or file_names("kernel", exported)
    described, images, builds = {}, {}, []
    for gpu in exported.gpus:
        build = _build(exported, gpu)
        builds.append(build)
        images[gpu.arch] = Path(build.cubin_path).read_bytes()
        described[gpu.arch] = _image(exported, gpu, build, names[gpu.arch], images[gpu.arch])
    return Artefact(_description(as_checked(exported, builds[:1]), described, command), images)


def _build(exported: ExportRequest, gpu: GpuSpec) -> Build:
    key = exported.problem.compile_keys(gpu.arch)[0]
    build = compile_candidate(render(exported.genome, key, gpu))
    if not build.ok:
        raise UsageError(f"{exported.name} does not compile for {gpu.arch}: {first_error(build.log)}.")
    return build


def _description(exported: ExportRequest, images: dict[str, Any], command: str) -> dict[str, Any]:
    workload = exported.problem.workloads[0]
    form = form_of(workload)
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": exported.name,
        "operation": workload.operation,
        "form": form.name,
        "contract": form.contract(workload),
        "images": images,
        "kernel": _kernel(exported),
        **claims(exported),
        "command": command or reproducing_command(exported.genome, exported.problem, exported.gpu),
    }


def form_of(what: Workload | CompileKey) -> LaunchForm:
    """How such kernels are launched; UsageError where they leave as C++ alone."""
    form = operation_of(what).launch_form
    if form is None:
        raise UsageError(
            f"'{what}' is {what.operation}, which is exported as kernel.cu alone: choose that kind."
        )
    return form


def _kernel(exported: ExportRequest) -> dict[str, Any]:
    genome = exported.genome
    return {
        "family": genome.family,
        "family_version": genome.version,
        "genome": genome.id,
        "values": genome.as_dict(),
    }


def _image(exported: ExportRequest, gpu: GpuSpec, build: Build, file: str, cubin: bytes) -> dict[str, Any]:
    return {
        "file": file,
        "sha256": hashlib.sha256(cubin).hexdigest(),
        "bytes": len(cubin),
        "registers": build.registers,
        "gpu": gpu.name,
        "compiler": f"NVRTC {nvrtc_version()} {' '.join(FLAGS)} -arch={gpu.arch}",
        **launching(exported.genome, exported.problem.workloads[0], gpu),
    }


def launching(genome: Genome, workload: Workload, gpu: GpuSpec) -> dict[str, Any]:
    """What launch.json says of a genome's launches, for all shapes that compile as the workload does."""
    family = load_family(genome.family)
    names = family.names(genome.as_dict(), workload.compile_key(gpu.arch), gpu)
    launches = family.launches(genome, workload, gpu)
    kernels = [kernel for kernel in family.kernels if kernel.when(names)]
    form = form_of(workload)
    return {
        "arguments": form.arguments(has_workspace=launches[0].workspace_bytes > 0),
        "launches": [_launch(*pair, names, form.sizes) for pair in zip(kernels, launches, strict=True)],
        "tensor_maps": [_tensor_map(each) for each in launches[0].maps],
        "workspace_bytes": of_sizes(family.workspace, names, form.sizes),
        "zeroed_bytes": launches[0].zeroed_bytes,
    }


def _launch(
    kernel: KernelSpec, launch: LaunchConfig, names: Mapping[str, Any], sizes: tuple[str, ...]
) -> dict[str, Any]:
    return {
        "entry": launch.entry,
        "grid": [of_sizes(side, names, sizes) for side in kernel.grid],
        "block": [of_sizes(side, names, sizes) for side in kernel.block],
        "shared_memory_bytes": of_sizes(kernel.smem, names, sizes),
        "cluster": list(launch.cluster),
        "resident": launch.resident,
        "dependent": launch.dependent,
    }


def _tensor_map(given: TensorMapSpec) -> dict[str, Any]:
    return {
        "of": given.of.lower(),
        "box": list(given.box),
        "swizzle": given.swizzle,
        "l2_promotion": given.l2_promotion,
        "heads_inside": given.heads_inside,
    }
