"""Exported files as C programs use them: declarations, two kernels in one program, and what a call refuses.

nvcc compiles here without a GPU, and no call that is refused needs one; tests/on_gpu/test_exports.py runs
kernels.
"""

import ctypes
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tables import data, table_of_cases

from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_kernel, genome_of
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.forms.dense import ERRORS

needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc, of CUDA 12.5 or later")
NVCC = ("nvcc", "-std=c++17", "-O2", "-Xcompiler", "-Wall,-Wextra,-fPIC", "-DEVOFLASH_NO_MAIN")
ARCH = "-gencode=arch=compute_90a,code=sm_90a"
DECODE = "b=2,h=8,hkv=2,sq=4,skv=512,d=64,causal"
LONG = "b=2,h=4,hkv=4,sq=256,skv=256,d=128,dtype=bf16"
C_TYPES = {
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
}
CODES = {error.name: error.code for error in ERRORS}


class Args(ctypes.Structure):
    _fields_ = [
        (field.name, kind * field.count if field.count > 1 else kind)
        for field in dense.FIELDS
        for kind in [C_TYPES.get(field.type, ctypes.c_void_p)]
    ]


def exported(family: str, problem: str, *words: str, prefix: str | None = None) -> str:
    return export_kernel(*genome_of(family, list(words), problem=problem, gpu="h200"), prefix=prefix)


def compiled(*command: str, folder: Path) -> None:
    """Runs a compiler that must not even warn."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two files of one family, one of them with split keys, and one that uses TMA and clusters."""
    made = tmp_path_factory.mktemp("exports")
    split = exported("flash_mma", DECODE, "kv_splits=4", prefix="decode")
    (made / "decode.cu").write_text(split)
    (made / "plain.cu").write_text(exported("flash_mma", DECODE))
    (made / "long.cu").write_text(exported("flash_wgmma", LONG, "cluster=2", prefix="long_one"))
    return made


@pytest.fixture(scope="module")
def library(folder):
    """The two short ones linked into one shared library."""
    return linked(folder, {"decode": "decode", "plain": "flash_mma"})


def linked(folder, prefixes) -> ctypes.CDLL:
    """The files of those names in one shared library; for each the prefix of its functions."""
    for name in prefixes:
        compiled(*NVCC, ARCH, "-c", f"{name}.cu", "-o", f"{name}.o", folder=folder)
    product = "_".join(prefixes) + ".so"
    compiled("nvcc", "-shared", *(f"{name}.o" for name in prefixes), "-o", product, folder=folder)
    loaded = ctypes.CDLL(str(folder / product))
    for prefix in prefixes.values():
        getattr(loaded, f"{prefix}_workspace_bytes").restype = ctypes.c_uint64
        getattr(loaded, f"{prefix}_error_string").restype = ctypes.c_char_p
    return loaded


def call(**changes) -> Args:
    """A call of DECODE that is right, but for the pointers, and for what is changed."""
    args = Args(
        size=ctypes.sizeof(Args), version=dense.STRUCT.version, q=0x1000, k=0x2000, v=0x3000, o=0x4000
    )
    args.batch, args.heads, args.kv_heads, args.seq_q, args.seq_kv, args.head_dim = 2, 8, 2, 4, 512, 64
    args.dtype, args.mask = dense.DTYPE_CODES["fp16"], dense.MASK_CODES["causal"]
    args.workspace, args.workspace_bytes = 0x10000, 1 << 30
    for name, value in changes.items():
        setattr(args, name, type(getattr(args, name))(*value) if isinstance(value, tuple) else value)
    return args


def answer(library, args, prefix="decode") -> int:
    return getattr(library, f"{prefix}_forward")(ctypes.byref(args), None)


# ---- the declarations


def test_every_file_declares_the_same_struct(folder):
    guarded = r"#ifndef EVOFLASH_ATTENTION_VERSION\n.*?#endif\n\n#ifdef __cplusplus\nextern"
    texts = {re.search(guarded, path.read_text(), re.DOTALL)[0] for path in folder.glob("*.cu")}

    assert len(texts) == 1


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("language", ["c99", "c++11"])
def test_a_c_program_includes_two_files_as_headers_and_gets_declarations_alone(folder, language):
    text = (
        '#include "decode.cu"\n#include "long.cu"\n'
        f"typedef char as_python_has_it[sizeof(evoflash_attention_args) == {ctypes.sizeof(Args)} ? 1 : -1];\n"
        "int call(void) {\n  evoflash_attention_args args = evoflash_attention_args_init();\n"
        "  evoflash_attention_bshd(&args);\n"
        "  return decode_forward(&args, 0) + long_one_forward(&args, 0);\n}\n"
    )
    (folder / "use.c").write_text(text)

    kind = "c++" if "++" in language else "c"
    options = ("-x", kind, f"-std={language}", "-Wall", "-Wextra", "-pedantic", "-fsyntax-only")
    compiled("gcc", *options, "use.c", folder=folder)


def test_the_kernels_of_a_file_without_a_prefix_keep_their_names_and_others_begin_with_it(folder):
    plain, decode = ((folder / f"{name}.cu").read_text() for name in ("plain", "decode"))

    assert re.findall(r"^EF_EXPORT_KERNEL\((\w+)\)", plain, re.MULTILINE) == ["flash_mma"]
    assert re.findall(r"^EF_EXPORT_KERNEL\((\w+)\)", decode, re.MULTILINE) == [
        "decode_flash_mma_kernel",
        "decode_flash_mma_combine_kernel",
    ]
    assert not re.search(r"\bflash_mma(_combine)?\(", decode)


# ---- a program of several kernels


@needs_nvcc
@pytest.mark.full
def test_three_kernels_link_into_one_library_without_a_warning(folder):
    prefixes = {"decode": "decode", "plain": "flash_mma", "long": "long_one"}
    library = linked(folder, prefixes)
    for prefix in prefixes.values():
        assert getattr(library, f"{prefix}_forward")(None, None) == CODES["BAD_VERSION"]
    assert library.long_one_error_string(CODES["BAD_DTYPE"]).endswith(b"(bf16)")


@needs_nvcc
@pytest.mark.slow
@pytest.mark.full
def test_three_files_can_be_included_into_one_translation_unit(folder):
    (folder / "all.cu").write_text("".join(f'#include "{name}.cu"\n' for name in ("decode", "plain", "long")))

    compiled(*NVCC, ARCH, "-c", "all.cu", "-o", "all.o", folder=folder)


@needs_nvcc
@pytest.mark.parametrize(("batch", "heads", "seq_q"), [(1, 4, 1), (2, 8, 4), (3, 12, 77)])
@pytest.mark.sample(1)
def test_the_workspace_that_a_file_asks_for_is_what_its_launches_use(library, batch, heads, seq_q):
    problem = f"b={batch},h={heads},hkv={heads // 4},sq={seq_q},skv=512,d=64,causal"
    genome, what, gpu = genome_of("flash_mma", ["kv_splits=4"], problem=problem, gpu="h200")
    (launch, _) = load_family("flash_mma").launches(genome, what.workloads[0], gpu)
    args = call(batch=batch, heads=heads, kv_heads=heads // 4, seq_q=seq_q)

    assert library.decode_workspace_bytes(ctypes.byref(args)) == launch.workspace_bytes > 0
    assert library.flash_mma_workspace_bytes(ctypes.byref(args)) == 0


@needs_nvcc
def test_no_workspace_is_asked_for_a_call_that_is_none(library):
    assert library.decode_workspace_bytes(ctypes.byref(call(batch=0))) == 0
    assert library.decode_workspace_bytes(None) == 0


# ---- what a call refuses

BAD = [
    *data(__file__, "BAD", tuples=True),
    ("BAD_VERSION", {"size": ctypes.sizeof(Args) - 8}),
    ("RESERVED", {"reserved_pointers": (0,) * 7 + (0x1000,)}),
    ("RESERVED", {"reserved_values": (0, 1) + (0,) * 6}),
    ("BAD_SHAPE", {"seq_kv": (1 << 24) + 1}),
    ("BAD_SHAPE", {"batch": 1 << 30, "heads": 8}),
    ("BAD_DTYPE", {"dtype": dense.DTYPE_CODES["bf16"]}),
    ("BAD_MASK", {"mask": dense.MASK_CODES["none"]}),
    ("BAD_SCALE", {"scale": math.nan}),
    ("BAD_SCALE", {"scale": math.inf}),
    ("NULL_POINTER", {"k": None}),
    ("NULL_POINTER", {"o": None}),
    ("BAD_WORKSPACE", {"workspace": None}),
    ("BAD_STRIDES", {"k_strides": (2 * 512 * 68, 512 * 68, 68)}),  # rows begin at multiples of 8 bytes
    ("BAD_STRIDES", {"v_strides": (-2 * 512 * 64, 512 * 64, 64)}),
    ("BAD_STRIDES", {"v_strides": (0, 512 * 64, 64)}),
    ("BAD_STRIDES", {"q_strides": (8 * 4 * 64, 4 * 64, 56)}),  # rows overlap
    ("BAD_STRIDES", {"o_strides": (8 * 4 * 64, 2 * 64, 64)}),  # heads of the output overlap
    ("BAD_STRIDES", {"q_strides": ((1 << 38) + 8, 4 * 64, 64)}),
]


@needs_nvcc
@pytest.mark.parametrize(("name", "changes"), BAD, ids=[f"{name} {list(change)}" for name, change in BAD])
def test_a_call_that_cannot_be_right_is_refused_and_says_why(library, name, changes):
    code = answer(library, call(**changes))

    assert code == CODES[name]
    said = library.decode_error_string(code).decode()
    assert said.startswith(next(error.says for error in ERRORS if error.name == name))
    assert "\n" not in said


def of_a_gpu(code: int) -> bool:
    """Whether the arguments were found right: what was answered is the runtime's."""
    return code > 0


no_gpu = pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="pointers to nothing must not meet a GPU")


@needs_nvcc
@no_gpu
@table_of_cases(tuples=True, ids=str)
def test_a_call_that_may_be_right_goes_on_to_the_runtime(library, changes):
    code = answer(library, call(**changes))

    assert of_a_gpu(code), library.decode_error_string(code)


@needs_nvcc
@no_gpu
def test_a_later_versions_larger_struct_is_taken_where_all_that_is_new_is_zero(library):
    larger = (ctypes.c_ubyte * (ctypes.sizeof(Args) + 16))()
    ctypes.memmove(larger, ctypes.byref(call(size=len(larger))), ctypes.sizeof(Args))

    assert of_a_gpu(library.decode_forward(larger, None))
    larger[-1] = 1
    assert library.decode_forward(larger, None) == CODES["RESERVED"]


@needs_nvcc
def test_what_a_kernel_was_compiled_for_stands_in_its_errors(library):
    assert library.decode_error_string(CODES["BAD_HEADS"]).endswith(b"(4)")
    assert library.decode_error_string(CODES["BAD_MASK"]).endswith(b"(causal)")
    assert library.decode_error_string(0) == b"no error"


# ---- every family


@needs_nvcc
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("problem", [DECODE, LONG])
@pytest.mark.parametrize(
    "family",
    ["decode_dense", "flash_cluster", "flash_direct", "flash_mma", "flash_simt", "flash_wgmma", "flash_wmma"],
)
def test_nvcc_warns_of_no_seed_of_any_family(family, problem, tmp_path):
    genome, what, gpu = genome_of(family, [], problem=problem, gpu="h200")
    loaded = load_family(family)
    space = loaded.space(what.compile_keys(gpu.arch), gpu)
    for at, each in enumerate((genome, *loaded.seeds_for(what, space, gpu)[:3])):
        (tmp_path / f"{at}.cu").write_text(export_kernel(each, what, gpu, prefix=f"k{at}"))
        compiled(*NVCC, ARCH, "-c", f"{at}.cu", "-o", f"{at}.o", folder=tmp_path)
