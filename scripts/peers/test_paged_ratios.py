"""What paged_ratios.py compares: calls in other memory, sequences alone, the space of a smaller GPU."""

import numpy as np
import pytest

from evoflash.extensions import extension_folders
from evoflash.kernels.family import load_family
from evoflash.operations.expectations import every_row
from evoflash.operations.paged.inputs import draw
from evoflash.operations.paged.reference import expect
from evoflash.operations.paged.workload import parse_workload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.families.draws import draw_quickly
from scripts.peers import paged_ratios
from scripts.peers.paged_calls import LAYOUTS, alone, laid_out, write_limited_family


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_has_the_same_numbers_in_every_layout(layout):
    k, v = np.arange(2 * 3 * 2 * 4 * 8, dtype=np.uint16).reshape(2, 3, 2, 4, 8)
    laid = laid_out(layout, k, v)
    for name, whole in (("K", k), ("V", v)):
        which, begin = laid.begins[name]
        memory, strides = laid.arrays[which].reshape(-1)[begin:], laid.strides[name]
        view = np.lib.stride_tricks.as_strided(memory, whole.shape, [2 * stride for stride in strides])
        assert (view == whole).all()
    assert sum(array.size for array in laid.arrays) == k.size + v.size


@pytest.mark.parametrize(
    "problem", ["b=3,h=4,hkv=2,sq=2,skv=70,d=32,page=16,sink", "b=2,h=2,sq=1,skv=9,d=16,page=3"]
)
def test_a_sequence_alone_is_the_one_in_the_batch(problem):
    workload = parse_workload(problem)
    inputs = draw("edges", workload, seed=2)
    whole = expect(workload, inputs, where=every_row(workload)).rows["O"].right.reshape(workload.batch, -1)
    for at in range(workload.batch):
        one, given = alone(workload, inputs, at)
        right = expect(one, given, where=every_row(one)).rows["O"].right
        np.testing.assert_allclose(right.reshape(-1), whole[at], atol=1e-12)


def test_the_limited_family_has_no_more_than_the_smaller_gpu(tmp_path, monkeypatch):
    name = write_limited_family("decode_mma", load_gpu("l4"), tmp_path)
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(tmp_path))
    assert extension_folders()
    problem, gpu = parse_problem("serving_llama8b_b8_4k"), load_gpu("h100")
    family, rng = load_family(name), np.random.default_rng(1)
    (key,) = problem.compile_keys(gpu.arch)
    for _ in range(20):
        genome = draw_quickly(family, key, gpu, rng)
        (launch,) = family.launches(genome, problem.workloads[0], gpu)
        assert launch.smem_bytes <= 101376
        assert launch.block[0] * genome.as_dict()["blocks_per_sm"] <= 1536
        assert "early_start" not in genome.as_dict()


def test_kernels_are_searched_on_problems_that_differ_in_one_thing():
    wanted = paged_ratios.problems("serving_llama8b_b8_4k", ["serving_llama8b_b1_8k"])
    assert "page=4096" in wanted["dense"]
    assert "page=1," in wanted["page_1"]
    assert wanted["invariant"].endswith(",invariant")
    assert wanted["one_row"] == wanted["four_rows"].replace("sq=4", "sq=1")
    assert wanted["l4 serving_llama8b_b1_8k"] == "serving_llama8b_b1_8k"


def test_a_figure_says_whether_it_is_what_it_should_be():
    times = {"dense": [10.0] * 9, "page_16": [10.2] * 9, "invariant": [11.5] * 9}
    found = {each["figure"]: each for each in paged_ratios.ratios(times)}
    assert found["dense over page 16"]["is_met"]
    assert not found["invariant over free"]["is_met"]
    assert found["invariant over free"]["ratio"] == pytest.approx(11.5 / 10.2, abs=1e-4)
    assert "four rows over one" not in found
