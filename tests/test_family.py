"""Template headers: what they declare, and what a malformed one is told."""

from pathlib import Path

import numpy as np
import pytest

from evoflash.errors import TemplateError, UsageError
from evoflash.family import load_family, read_family
from evoflash.gpu import load_gpu
from evoflash.problem import CompileKey, Workload

HEADER = """{#---
# A family for tests.
version = 1
arch = ["sm_80+"]
entry = "tiny"
[params]
warps = [1, 2]
mode = ["a", "b"]
depth = [1, 2, 3]
[when]
depth = "mode == 'b'"
[let]
threads = "32 * warps"
[check]
fits = "threads <= gpu.threads_per_sm"
[launch]
grid = ["ceil_div(seq_q, 16)", "heads", "batch"]
block = ["threads", 1, 1]
smem = 1024
---#}
// body
"""


def family_from(tmp_path: Path, text: str):
    path = tmp_path / "tiny.cu.j2"
    path.write_text(text)
    return read_family(path)


def test_a_header_becomes_a_family(tmp_path):
    family = family_from(tmp_path, HEADER)

    assert (family.name, family.version, family.entry) == ("tiny", 1, "tiny")
    assert family.summary == "A family for tests."


def test_an_inactive_param_is_absent_from_the_genome(tmp_path):
    space = family_from(tmp_path, HEADER).space((CompileKey(64, "fp16", False, 1, "sm_89"),), load_gpu("l4"))

    assert "depth" not in space.genome({"mode": "a", "depth": 3}).as_dict()
    assert space.genome({"mode": "b", "depth": 3}).as_dict()["depth"] == 3


@pytest.mark.parametrize(
    ("old", "new", "mentions"),
    [
        ('"32 * warps"', '"32 * wraps"', "let.threads"),
        ('"threads <= gpu.threads_per_sm"', '"threads <= gpu.nope"', "check.fits"),
        ('"threads <= gpu.threads_per_sm"', '"threads"', "check.fits"),
        ('"threads <= gpu.threads_per_sm"', '"threads <="', "check.fits"),
        ("\"mode == 'b'\"", '"depth"', "when.depth"),
        ('depth = "mode', 'width = "mode', "width"),
        ('["ceil_div(seq_q, 16)", "heads", "batch"]', '["heads"]', "launch.grid"),
        ("warps = [1, 2]", "warps = 3", "params.warps"),
        ("warps = [1, 2]", "warps = [1, 1]", "params.warps"),
        ("version = 1", 'version = "one"', "version"),
        ("[let]", "[lets]", "lets"),
        ("[params]", "[params", "TOML"),
        ("{#---", "{#", "header"),
        ('"32 * warps"', '"warps.__class__"', "let.threads"),
        ('"32 * warps"', '"32 // (warps - warps)"', "let.threads"),
    ],
)
def test_a_malformed_header_names_the_file_and_the_key(tmp_path, old, new, mentions):
    assert old in HEADER

    with pytest.raises(TemplateError) as caught:
        family_from(tmp_path, HEADER.replace(old, new))

    assert "tiny.cu.j2" in str(caught.value)
    assert mentions in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_expression_that_needs_an_inactive_param_is_refused(tmp_path):
    with pytest.raises(TemplateError, match=r"let\.threads"):
        family_from(tmp_path, HEADER.replace('"32 * warps"', '"32 * warps * depth"'))


def test_an_unknown_family_lists_the_known_ones():
    with pytest.raises(UsageError, match="flash_mma"):
        load_family("flash_nope")


def test_an_exact_arch_admits_only_itself(tmp_path):
    family = family_from(tmp_path, HEADER.replace('["sm_80+"]', '["sm_90a"]'))

    assert family.supports(load_gpu("h200"))
    assert not family.supports(load_gpu("l4"))


def test_flash_mma_has_ten_thousand_valid_points_on_an_l4():
    space = load_family("flash_mma").space((CompileKey(64, "fp16", False, 1, "sm_89"),), load_gpu("l4"))
    rng = np.random.default_rng(0)
    draws = 3000
    valid = sum(space.draw(rng) is not None for _ in range(draws))

    assert space.cardinality * valid / draws > 10_000 * 2  # twice: the count is a sample's


def test_a_launch_covers_every_query_row():
    family, gpu = load_family("flash_mma"), load_gpu("l4")
    genome = family.space((CompileKey(64, "fp16", False, 1, "sm_89"),), gpu).genome(
        {"warps": 4, "rows_per_warp": 16}
    )

    (launch,) = family.launches(genome, Workload(2, 4, 4, 65, 7, 64), gpu)

    assert launch.grid == (2, 4, 2)
    assert launch.block == (128, 1, 1)
