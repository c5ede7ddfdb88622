"""The exported file: complete, reproducible, and compiled here by NVRTC without any -I."""

import itertools
import re
import shlex

import pytest
from cupy.cuda import nvrtc

from evoflash.errors import UsageError
from evoflash.export import export_kernel, reproducing_command
from evoflash.family import load_family
from evoflash.gpu import load_gpu
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


def test_a_problem_that_needs_several_kernels_is_refused():
    with pytest.raises(UsageError, match="2 different kernels"):
        exported("mission+mission,causal")


def test_the_command_is_one_shell_line():
    what, spec = parse_problem("mission"), load_gpu("l4")
    genome = load_family("flash_mma").space(what.compile_keys(spec.arch), spec).genome({})

    command = reproducing_command(genome, what, spec)

    assert "\n" not in command
    assert shlex.split(command)[:2] == ["evoflash", "export"]
