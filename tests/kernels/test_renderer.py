"""Rendered kernels: golden texts, the lint, and that the same genome gives the same bytes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tables import data

from evoflash.errors import UsageError
from evoflash.kernels import renderer
from evoflash.kernels.family import load_family
from evoflash.kernels.lint import lint
from evoflash.kernels.renderer import indent, render
from evoflash.operations.attention.workload import AttentionKey
from evoflash.paths import TEMPLATES
from evoflash.space import Genome
from evoflash.specs import load_gpu

FULL = AttentionKey(64, "fp16", False, 1, "sm_89")
CAUSAL = AttentionKey(128, "bf16", True, 4, "sm_90a")
KEYS = {"FULL": FULL, "CAUSAL": CAUSAL}
GOLDEN = {name: (KEYS[key], values) for name, (key, values) in data(__file__, "GOLDEN").items()}


def flash_mma(key: AttentionKey, values) -> Genome:
    return load_family("flash_mma").space((key,), load_gpu("l4")).genome(values)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rendered_kernel_is_the_golden_one(name, golden):
    key, values = GOLDEN[name]

    golden(f"flash_mma-{name}.cu", render(flash_mma(key, values), key, load_gpu("l4")).source)


def rendered_anew() -> str:
    """As the next process would."""
    renderer._template.cache_clear()
    renderer._environment.cache_clear()
    return render(flash_mma(FULL, {}), FULL, load_gpu("l4")).source


def test_a_process_compiles_no_template_that_another_has_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    text = rendered_anew()
    monkeypatch.setattr(renderer.Environment, "compile", None)

    assert rendered_anew() == text


def test_templates_are_compiled_again_where_those_of_the_cache_are_damaged_or_none_can_be_kept(
    tmp_path, monkeypatch
):
    text = rendered_anew()
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    for damage in (lambda kept: kept[:-9], lambda kept: kept[:90] + b"#" + kept[91:]):
        rendered_anew()
        for file in (tmp_path / "templates").iterdir():
            file.write_bytes(damage(file.read_bytes()))
        assert rendered_anew() == text
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path / "file"))
    assert rendered_anew() == text


def test_no_template_word_survives_in_any_rendered_kernel():
    space = load_family("flash_mma").space((CAUSAL,), load_gpu("h200"))
    rng = np.random.default_rng(2)
    for _ in range(30):
        source = render(space.sample(rng), CAUSAL, load_gpu("h200")).source
        assert "{{" not in source
        assert "{%" not in source
        assert lint(source) == ()


def test_the_workload_is_not_in_the_text():
    """One build serves every length: nothing of batch or sequence length may be baked in."""
    source = render(flash_mma(FULL, {}), FULL, load_gpu("l4")).source

    assert "512" not in source


def test_a_genome_of_another_family_version_is_refused():
    genome = Genome("flash_mma", 99, flash_mma(FULL, {}).values)

    with pytest.raises(UsageError, match="version 99"):
        render(genome, FULL, load_gpu("l4"))


@pytest.fixture
def own_templates(tmp_path: Path, use_templates: Callable[[Path], None]) -> Path:
    """A user's folder with a copy of flash_wgmma and of its parts."""
    shutil.copy(TEMPLATES / "flash_wgmma.cu.j2", tmp_path)
    shutil.copytree(TEMPLATES / "flash_wgmma", tmp_path / "flash_wgmma")
    use_templates(tmp_path)
    return tmp_path


def flash_wgmma_text() -> str:
    genome = load_family("flash_wgmma").space((CAUSAL,), load_gpu("h200")).genome({})
    return render(genome, CAUSAL, load_gpu("h200")).source


def test_a_copy_of_a_family_includes_its_own_parts(own_templates):
    as_shipped = flash_wgmma_text()
    part = own_templates / "flash_wgmma" / "epilogue.cu.j2"
    part.write_text(part.read_text().replace("gives O = 0", "gives zeros"))

    assert "gives O = 0" in as_shipped
    assert flash_wgmma_text() == as_shipped.replace("gives O = 0", "gives zeros")


def test_a_copy_of_a_family_includes_the_shipped_parts_where_it_has_none(own_templates):
    as_shipped = flash_wgmma_text()
    shutil.rmtree(own_templates / "flash_wgmma")

    assert flash_wgmma_text() == as_shipped


def test_a_shipped_family_does_not_include_a_users_parts(own_templates):
    (own_templates / "flash_wgmma.cu.j2").unlink()
    as_shipped = flash_wgmma_text()
    (own_templates / "flash_wgmma" / "epilogue.cu.j2").write_text("spoilt")

    assert flash_wgmma_text() == as_shipped


def test_nested_code_keeps_preprocessor_lines_at_the_margin():
    assert indent("a();\n\n#pragma unroll\n  b();\n", 2) == "  a();\n\n#pragma unroll\n    b();\n"
