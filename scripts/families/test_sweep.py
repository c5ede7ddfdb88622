"""The sweep over whole families: what it draws, what it counts, and that a failure can be made again."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

from evoflash.kernels.family import known_families, load_family
from evoflash.kernels.standalone import export_values
from evoflash.space import Genome
from evoflash.specs import load_gpu
from scripts.families.draws import draw_key, draw_quickly, sums_in_half, workload_of
from scripts.families.sweep import Outcome, Task, examine, spills_by_value, summary, tasks

TASK = Task("flash_mma", "l4", number=3, seed=0, emulate=True)
GOOD = Outcome(TASK, values=(("warps", 4), ("layout", "pad8")), problem="mission", compiled=True)
WIDE = (("warps", 8), ("layout", "pad8"))

BROKEN = """{#---
# Compiles where `fault` allows it; computes nothing.
version = 1
arch = ["sm_80+"]
entry = "broken"
[params]
fault = ["syntax", "silent"]
[let]
block_m = "16"
block_n = "16"
k_stages = "1"
[launch]
grid = ["seq_q", "heads", "batch"]
block = [32, 1, 1]
---#}
{{ banner }}
#include "ef.h"
using element = ef::{{ 'f16' if dtype == 'fp16' else 'bf16' }};
using pitch = long long;
extern "C" __global__ void
{{ entry }}(const element* Q, const element* K, const element* V, element* O, float* LSE,
    int seq_q, int seq_kv, int heads, int kv_heads, pitch q_batch, pitch q_head, pitch q_row,
    pitch k_batch, pitch k_head, pitch k_row, pitch v_batch, pitch v_head, pitch v_row,
    pitch o_batch, pitch o_head, pitch o_row, float scale) {
  {{ 'nonsense;' if fault == 'syntax' }}
}
EF_EXPORT_KERNEL({{ entry }})
"""


def test_families_and_gpus_take_turns_so_that_a_time_limit_cuts_all_alike():
    work = tasks(("flash_mma", "flash_simt"), ("l4", "h200"), count=2, seed=0, emulate=False)

    first = {(task.family, task.gpu) for task in work[:4]}
    assert first == {(f, g) for f in ("flash_mma", "flash_simt") for g in ("l4", "h200")}
    assert [task.number for task in work] == [0] * 4 + [1] * 4


def test_a_genome_is_drawn_from_its_number_alone():
    task = replace(TASK, emulate=False)

    once, again, other = examine(task), examine(task), examine(replace(task, number=4))

    assert (once.values, once.problem) == (again.values, again.problem)
    assert (once.values, once.problem) != (other.values, other.problem)
    assert once.compiled
    assert once.stage == ""


def test_a_healthy_genome_passes_the_emulator_and_its_command_names_the_same_genome():
    outcome = examine(TASK)
    words = shlex.split(outcome.command)
    chosen = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    text = export_values("flash_mma", chosen, problem=words[words.index("--problem") + 1], gpu="l4")

    assert (outcome.stage, outcome.compiled) == ("", True)
    assert Genome("flash_mma", load_family("flash_mma").version, outcome.values).id in text


@pytest.mark.parametrize(
    ("fault", "stage", "compiled"), [("syntax", "compile", False), ("silent", "emulator", True)]
)
def test_a_failure_has_the_stage_where_it_stopped(tmp_path, monkeypatch, fault, stage, compiled):
    other = {"syntax": ', "silent"', "silent": '"syntax", '}[fault]
    (tmp_path / "broken.cu.j2").write_text(BROKEN.replace(other, "", 1))
    monkeypatch.setenv("EVOFLASH_TEMPLATES", str(tmp_path))
    load_family.cache_clear()
    try:
        outcome = examine(replace(TASK, family="broken"))
    finally:
        load_family.cache_clear()

    assert (outcome.stage, outcome.compiled) == (stage, compiled)
    assert outcome.reason


def test_the_summary_counts_compiled_spilled_and_complaints():
    outcomes = [
        GOOD,
        replace(GOOD, spill_bytes=8, values=WIDE),
        replace(GOOD, stage="emulator", reason="runtime: RACE"),
        replace(GOOD, compiled=False, stage="compile", reason="compile: error"),
    ]

    found = summary(outcomes)

    assert (found["genomes"], found["compiled"], found["compiled_share"]) == (4, 3, 0.75)
    assert (found["spilled"], found["emulated"], found["complaints"]) == (1, 3, 1)
    assert [failure["stage"] for failure in found["failures"]] == ["emulator", "compile"]
    assert found["spills_by_value"]["warps"] == {"4": [0, 2], "8": [1, 1]}
    assert found["spills_by_value"]["layout"] == {"pad8": [1, 3]}


def test_without_spills_there_is_nothing_to_list():
    assert spills_by_value([GOOD]) == {}


@pytest.mark.parametrize("name", known_families())
@pytest.mark.sample(2)
def test_keys_are_drawn_over_what_a_family_takes(name):
    family, gpu, rng = load_family(name), load_gpu("h200"), np.random.default_rng(0)
    keys = [draw_key(family, gpu, rng) for _ in range(120)]

    assert {64, 128} <= {key.head_dim for key in keys}
    assert {(key.dtype, key.causal, key.gqa_ratio) for key in keys} == {
        (dtype, causal, ratio) for dtype in ("fp16", "bf16") for causal in (False, True) for ratio in (1, 4)
    }
    assert ({key.accumulate for key in keys} == {"fp32", "fp16"}) == sums_in_half(name, "h200")
    assert all(draw_quickly(family, key, gpu, rng) for key in keys[:10])
    assert all(workload_of(key).compile_key(gpu.arch) == key for key in keys)
