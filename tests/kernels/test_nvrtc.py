"""NVRTC builds without a GPU: resources, identity, the cache; and what a broken text gives."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from evoflash.errors import DeviceError
from evoflash.evaluation import Candidate
from evoflash.kernels import nvrtc
from evoflash.kernels.ef_layer import source_sha
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import (
    cached_source,
    compile_candidate,
    first_error,
    has_its_code,
    resources,
    text_sha,
)
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey
from evoflash.specs import load_gpu

SMALL = '#include "ef.h"\n__global__ void small(float* out) {{ out[threadIdx.x] = {}.0f; }}\n'


@cache
def rendered() -> Candidate:
    key = AttentionKey(64, "fp16", False, 1, "sm_89")
    family = load_family("flash_simt")
    return render(family.space((key,), load_gpu("l4")).genome({}), key, load_gpu("l4"))


def candidate(number: int = 0) -> Candidate:
    """A kernel with the number in it, whose text takes a tenth as long to compile as a family's."""
    source = SMALL.format(number)
    return replace(rendered(), source=source, source_sha=source_sha(source))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.sample(3)
def test_the_family_compiles_for_every_architecture(arch, dtype, head_dim):
    key = AttentionKey(head_dim, dtype, head_dim == 128, 2, arch)
    space = load_family("flash_mma").space((key,), load_gpu("l4"))
    build = compile_candidate(render(space.sample(np.random.default_rng(head_dim)), key, load_gpu("l4")))

    assert build.ok, first_error(build.log)
    assert 32 < build.registers <= 255
    with open(build.cubin_path, "rb") as file:
        assert file.read(4) == b"\x7fELF"


def test_a_second_compilation_comes_from_the_cache():
    first = compile_candidate(candidate(3))
    second = compile_candidate(candidate(3))

    assert second == first  # compile_s included: nothing was compiled again


def test_a_text_that_does_not_compile_is_data():
    broken = replace(candidate(), source="__global__ void f() { nonsense; }", source_sha="broken-1")
    build = compile_candidate(broken)

    assert not build.ok
    assert "nonsense" in first_error(build.log)
    assert build.cubin_path == ""


def test_comments_do_not_change_the_machine_code_hash():
    one = candidate(4)
    other = replace(one, source=one.source + "// another comment\n", source_sha=one.source_sha + "x")

    assert compile_candidate(one).text_sha == compile_candidate(other).text_sha


def test_another_value_changes_the_machine_code_hash():
    shas = {compile_candidate(candidate(number)).text_sha for number in (1, 2, 3)}

    assert len(shas) == 3


def test_spills_are_read_from_the_log():
    log = (
        "ptxas info    : Compiling entry function 'f' for 'sm_89'\n"
        "ptxas info    : Function properties for f\n"
        "    24 bytes stack frame, 40 bytes spill stores, 56 bytes spill loads\n"
        "ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 16 bytes smem\n"
        "ptxas warning : (C7508) Potential Performance Loss\n"
    )

    assert resources(log) == {
        "registers": 255,
        "stack_bytes": 24,
        "spill_bytes": 96,
        "smem_static_bytes": 16,
        "warnings": ("ptxas warning : (C7508) Potential Performance Loss",),
    }


def test_an_unwritable_cache_is_said_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path / "file"))

    with pytest.raises(DeviceError, match="EVOFLASH_CACHE_DIR"):
        compile_candidate(candidate(5))


@pytest.mark.parametrize("name", ["build.json", "kernel.cubin", "log.txt", "sha256"])
@pytest.mark.parametrize("damage", ["cut", "gone", "changed"])
@pytest.mark.sample(2)
def test_a_cache_folder_that_is_not_as_it_was_written_is_compiled_anew(tmp_path, monkeypatch, name, damage):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    build = compile_candidate(candidate(6))
    path = Path(build.cubin_path).with_name(name)
    whole = Path(build.cubin_path).read_bytes()
    content = path.read_bytes()
    changed = content[:40] + b"#" + content[41:]
    path.unlink() if damage == "gone" else path.write_bytes(content[:-7] if damage == "cut" else changed)
    assert has_its_code(build) is (name != "kernel.cubin")

    again = compile_candidate(candidate(6))

    assert (again.registers, again.text_sha) == (build.registers, build.text_sha)
    assert Path(again.cubin_path).read_bytes() == whole
    assert has_its_code(again)


def test_a_second_empty_cache_learns_the_same_of_a_kernel(tmp_path, monkeypatch):
    """Where a driver is, NVRTC's own cache would keep back what ptxas said the first time."""
    found = []
    for folder in ("a", "b"):
        monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path / folder))
        found.append(compile_candidate(candidate(6)))

    assert found[1].registers == found[0].registers > 0
    assert resources(found[1].log) == resources(found[0].log)


@pytest.mark.parametrize(("version", "given"), [((12, 8), False), ((12, 9), True), ((13, 0), True)])
def test_nvrtc_s_own_cache_is_turned_off_where_it_has_one(version, given, monkeypatch):
    monkeypatch.setattr(nvrtc, "_nvrtc", lambda: SimpleNamespace(getVersion=lambda: version))

    assert ("--no-cache" in nvrtc.options("sm_90a")) is given


def test_text_sha_reads_only_code_and_constants():
    build = compile_candidate(candidate(7))
    with open(build.cubin_path, "rb") as file:
        assert text_sha(file.read()) == build.text_sha


def test_the_text_that_a_build_was_made_of_is_read_from_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    made = candidate()
    assert cached_source(compile_candidate(made)) == made.source


def test_an_edited_or_missing_text_of_the_cache_is_not_taken_for_a_builds(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    build = compile_candidate(candidate())
    (kept,) = tmp_path.rglob("kernel.cu")
    kept.write_text(kept.read_text() + "// mine\n")
    assert cached_source(build) is None
    kept.unlink()
    assert cached_source(build) is None
