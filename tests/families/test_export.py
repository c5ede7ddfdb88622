"""The exported file: complete, reproducible, and compiled here by NVRTC without any -I."""

import itertools
import re
import shlex

import pytest
from cupy.cuda import nvrtc

from evoflash.champions import read_champions
from evoflash.errors import UsageError
from evoflash.families.export import export_kernel, reproducing_command
from evoflash.families.family import load_family
from evoflash.gpu import load_gpu
from evoflash.paths import CHAMPIONS
from evoflash.problem import parse_problem


def exported(problem: str, gpu: str = "l4", **values) -> str:
    what, spec = parse_problem(problem), load_gpu(gpu)
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome(values)
    return export_kernel(genome, what, spec)


@pytest.mark.parametrize(
    ("problem", "gpu"),
    [("mission", "l4"), ("mission,causal,dtype=bf16", "a100"), ("gqa4k_d128,causal", "h200")],
)
def test_the_file_compiles_with_nvrtc_and_no_include_path(problem, gpu):
    program = nvrtc.createProgram(exported(problem, gpu, warps=4, rescale="lazy"), "kernel.cu", [], [])

    nvrtc.compileProgram(program, ["-std=c++17", f"-arch={load_gpu(gpu).arch}"])


def test_the_file_holds_only_the_primitives_that_the_kernel_uses():
    text = exported("mission", warps=4, rescale="online", epilogue="direct")

    assert "mma_m16n8k16" in text
    for unused in ("bar_arrive", "unpack2", "any_sync", "u32x4 lds", "ef.h", "bf16.bf16"):
        assert unused not in text


def test_the_banner_names_the_command_that_prints_the_same_bytes():
    text = exported("mission,causal", warps=2, rescale="lazy")
    (line,) = re.findall(r"^// (evoflash export .*)$", text, flags=re.MULTILINE)
    words = shlex.split(line)
    values = dict(word.split("=") for flag, word in itertools.pairwise(words) if flag == "--set")
    problem, gpu = words[words.index("--problem") + 1], words[words.index("--gpu") + 1]

    again = exported(problem, gpu, **{k: int(v) if v.isdigit() else v for k, v in values.items()})

    assert again == text


@pytest.mark.parametrize("champion", read_champions(CHAMPIONS / "h200.toml"), ids=lambda c: c.problem)
def test_every_archived_kernel_can_be_exported(champion):
    what, spec = parse_problem(champion.problem), load_gpu("h200")
    space = load_family(champion.genome.family).space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome(champion.genome.as_dict()), what, spec)

    assert f"{champion.genome.family}_forward(" in text
    assert ("_workspace_bytes" in text) == ("u32* workspace" in text or "float* workspace" in text)


def test_scratch_of_pieces_handed_out_is_four_bytes_that_are_zero():
    what, spec = parse_problem("s2k_d128"), load_gpu("h200")
    space = load_family("flash_wgmma").space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome({"schedule": "dynamic", "consumers": 2}), what, spec)

    assert re.search(r"flash_wgmma_workspace_bytes\(Shape s\) \{[^}]*return 4;", text)
    assert "cudaMemset(workspace, 0, 4)" in text


def test_split_keys_are_exported_with_both_kernels_and_their_scratch():
    what, spec = parse_problem("decode8k"), load_gpu("h200")
    space = load_family("flash_wgmma").space(what.compile_keys(spec.arch), spec)

    text = export_kernel(space.genome({"kv_splits": 4, "consumers": 1, "pack_gqa": "on"}), what, spec)

    nvrtc.compileProgram(nvrtc.createProgram(text, "kernel.cu", [], []), ["-std=c++17", "-arch=sm_90a"])
    assert text.count("EF_EXPORT_KERNEL(") == 3  # the macro, and two kernels
    both = r"launch\(flash_wgmma, dim3\([^;]* return error;\n  return launch\(flash_wgmma_combine, dim3\("
    assert re.search(both, text)
    assert "return 4 * 4 * batch * heads * seq_q * (128 + 1);" in text
    assert "cudaMemset(workspace, 0, " not in text


def test_a_problem_that_needs_several_kernels_is_refused():
    with pytest.raises(UsageError, match="2 different kernels"):
        exported("mission+mission,causal")


def test_the_command_is_one_shell_line():
    what, spec = parse_problem("mission"), load_gpu("l4")
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome({})

    command = reproducing_command(genome, what, spec)

    assert "\n" not in command
    assert shlex.split(command)[:2] == ["evoflash", "export"]
