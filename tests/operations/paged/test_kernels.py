"""Kernels of paged attention: a plain one with planted mistakes, in the pre-flight; bits that must not
change; what an exported launcher refuses. No GPU.
"""

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tables import table_of_cases

from evoflash.emulator.call import EmulatorRun, run_call
from evoflash.emulator.preflight import preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel
from evoflash.operations.paged import form
from evoflash.operations.paged.inputs import draw
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

L4 = load_gpu("l4")
PLAIN = "b=2,h=4,hkv=2,sq=1,skv=200,d=32,page=16"
FULL = "b=2,h=6,hkv=2,sq=3,skv=200,d=16,page=1,window=8,softcap=9,sink,ragged,dtype=bf16"


@pytest.fixture
def plain(use_templates):
    use_templates(Path(__file__).parent)
    return load_family("plain_paged")


def checked(family, problem, **values):
    key = parse_problem(problem).workloads[0].compile_key(L4.arch)
    candidate = render(family.space((key,), L4).genome(values), key, L4)
    return preflight(candidate, family, L4, seed=3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("problem", [PLAIN, FULL], ids=["plain", "all features"])
@pytest.mark.parametrize("splits", [1, 3])
def test_a_right_kernel_passes_the_preflight(plain, problem, splits):
    assert checked(plain, problem, splits=splits).complaint == ""


@pytest.mark.sample(4)
@table_of_cases()
def test_a_planted_mistake_is_found_in_the_preflight(plain, fault, splits, of):
    found = checked(plain, PLAIN if of == "plain" else FULL, fault=fault, splits=splits or 1)

    assert found.complaint


def test_every_mistake_that_can_be_planted_is_in_the_table(plain):
    faults = next(param for param in plain.params if param.name == "fault").values
    table = Path(__file__).with_name("test_kernels.toml").read_text()

    assert set(re.findall(r'fault = "([^"]+)"', table)) == set(faults) - {"none"}


# ---- bits of decode_mma


def seed_for(problem, gpu):
    """decode_mma's first one that is valid."""
    family = load_family("decode_mma")
    return family.seeds_for(problem, family.space(problem.compile_keys(gpu.arch), gpu), gpu)[0]


def written(text, inputs):
    """O and LSE of decode_mma's first seed for a problem, on these inputs."""
    problem, family = parse_problem(text), load_family("decode_mma")
    (workload,), genome = problem.workloads, seed_for(problem, L4)
    key = workload.compile_key(L4.arch)
    library = gxx.build(render(genome, key, L4).source, name=family.name)
    run = EmulatorRun("random", "random", 1, 30.0)
    emulations, output = run_call(library, family.launches(genome, workload, L4), workload, inputs, run)
    assert not [report for emulation in emulations for report in emulation.reports]
    return output.tensors


@pytest.mark.sample(1)
@pytest.mark.parametrize("feature", ["window=70", "sink"])
def test_what_has_no_effect_changes_no_bit(feature):
    text = "b=3,h=4,hkv=2,sq=2,skv=70,d=64,page=16"
    inputs = draw("edges", parse_problem(text).workloads[0], seed=2)
    none = {"SINKS": np.full(4, -np.inf, np.float32)} if feature == "sink" else {}
    given = replace(inputs, tensors={**inputs.tensors, **none})

    without, with_it = written(text, inputs), written(f"{text},{feature}", given)

    for name in ("O", "LSE"):
        assert np.array_equal(without[name], with_it[name]), name


# ---- exported launchers

C_TYPES = {np.uint32: ctypes.c_uint32, np.int32: ctypes.c_int32, np.float32: ctypes.c_float}
C_TYPES |= {np.int64: ctypes.c_int64, np.uint64: ctypes.c_uint64}


class Args(ctypes.Structure):
    _fields_ = [
        (name, C_TYPES[kind.base.type] * kind.shape[0] if kind.shape else C_TYPES[kind.type])
        for name, (kind, *_) in form.LAYOUT.fields.items()
    ]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The launcher of a kernel with a window, sinks and shares, as a shared library."""
    if not shutil.which("nvcc"):
        pytest.skip("needs nvcc")
    folder = tmp_path_factory.mktemp("paged")
    problem = parse_problem("b=4,h=8,hkv=2,sq=2,skv=512,d=64,page=16,window=128,sink")
    gpu = load_gpu("h200")
    text = export_kernel(seed_for(problem, gpu), problem, gpu)
    (folder / "kernel.cu").write_text(text)
    flags = ("-std=c++17", "-gencode=arch=compute_90a,code=sm_90a", "-DEVOFLASH_NO_MAIN", "-shared")
    warnings = "-Wall,-Wextra,-fPIC"
    command = ["nvcc", *flags, "-Xcompiler", warnings, "kernel.cu", "-o", "kernel.so"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout + done.stderr
    loaded = ctypes.CDLL(str(folder / "kernel.so"))
    loaded.decode_mma_error_string.restype = ctypes.c_char_p
    loaded.decode_mma_workspace_bytes.restype = ctypes.c_uint64
    return loaded


def call(**changes) -> Args:
    """A call that is right, but for the pointers, and for what is changed."""
    args = Args(size=ctypes.sizeof(Args), version=form.STRUCT.version)
    for at, name in enumerate(("q", "k", "v", "o", "page_table", "kv_lengths", "sinks", "workspace")):
        setattr(args, name, 0x10000 * (at + 1))
    args.batch, args.heads, args.kv_heads, args.head_dim = 4, 8, 2, 64
    args.page_size, args.num_pages, args.max_seq_q, args.max_seq_kv, args.total_q = 48, 100, 2, 480, 8
    args.dtype = args.kv_dtype = 1
    args.window_left, args.workspace_bytes = 127, 1 << 30
    for name, value in changes.items():
        field = getattr(args, name)
        setattr(args, name, type(field)(*value) if isinstance(value, list) else value)
    return args


@pytest.mark.full
@table_of_cases()
def test_what_cannot_be_served_is_refused_in_one_line(library, changes, error):
    code = next(each.code for each in form.ERRORS if each.name == error)

    answer = library.decode_mma_forward(ctypes.byref(call(**changes)), None)

    assert answer == code
    assert b"\n" not in library.decode_mma_error_string(answer)


@pytest.mark.full
def test_an_empty_batch_is_nothing_to_do(library):
    assert library.decode_mma_forward(ctypes.byref(call(batch=0, total_q=0)), None) == 0
