"""The text of a kernel with smaller constants: what becomes of it, and what it shows."""

from dataclasses import replace

import pytest

from evoflash.emulator.preflight import preflight
from evoflash.kernels.family import families_for, load_family
from evoflash.kernels.renderer import render, shrunk
from evoflash.operations.attention.workload import AttentionKey
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
KEY = AttentionKey(64, "fp16", False, 32, GPU.arch)


@pytest.mark.parametrize("family", families_for(GPU), ids=lambda family: family.name)
def test_only_the_constants_change_and_every_line_keeps_its_number(family):
    genome = family.space((KEY,), GPU).genome({})
    source = render(genome, KEY, GPU).source
    smaller = replace(KEY, gqa_ratio=2)

    found = shrunk(source, family, family.names(genome.as_dict(), smaller, GPU))

    lines, new = source.splitlines(), found.splitlines()
    changed = [(old, line) for old, line in zip(lines, new, strict=True) if old != line]
    assert [(old.split(";")[0], line.split(";")[0]) for old, line in changed] == [
        ("constexpr int kGqaRatio = 32", "constexpr int kGqaRatio = 2")
    ]


def test_a_group_of_query_heads_that_is_too_dear_to_run_whole_is_told_from_the_next():
    family, key = load_family("flash_simt"), replace(KEY, head_dim=128)
    genome = family.space((key,), GPU).genome({})
    candidate = render(genome, key, GPU)
    right = "V += batch * v_batch + (head / kGqaRatio) * v_head;"
    assert candidate.source.count(right) == 1
    wrong = candidate.source.replace(right, "V += batch * v_batch;")

    assert preflight(candidate, family, GPU, seed=1).complaint == ""
    assert "h=4,hkv=2" in preflight(replace(candidate, source=wrong), family, GPU, seed=1).complaint
