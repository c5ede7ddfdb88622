"""A workspace is bounded by its problem: a larger one has room for the results of many calls."""

from dataclasses import replace

import numpy as np
import pytest

from evoflash.evaluation import Status
from evoflash.evaluators import prepare as preparing
from evoflash.kernels.expression import Expression
from evoflash.kernels.family import families_for
from evoflash.operation import most_workspace_bytes
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

GPU = load_gpu("h200")
PROBLEM = parse_problem("b=1,h=32,hkv=8,sq=1,skv=8192,d=128")
GENOMES = 5  # of each family


@pytest.mark.parametrize("family", families_for(GPU), ids=lambda family: family.name)
def test_every_family_asks_for_half_of_the_bound_at_most(family):
    rng = np.random.default_rng(1)
    space = family.space(PROBLEM.compile_keys(GPU.arch), GPU)
    for genome in (space.sample(rng) for _ in range(GENOMES)):
        for workload in PROBLEM.workloads:
            asked = [launch.workspace_bytes for launch in family.launches(genome, workload, GPU)]
            assert max(asked) <= most_workspace_bytes(workload) / 2


def test_a_kernel_that_asks_for_more_breaks_a_constraint(monkeypatch):
    family = next(each for each in families_for(GPU) if each.name == "flash_simt")
    genome = family.space(PROBLEM.compile_keys(GPU.arch), GPU).sample(np.random.default_rng(1))
    most = most_workspace_bytes(PROBLEM.workloads[0])
    parts = 32 * 4 * 32 * (128 + 1) + 4096  # parts, bytes, rows, columns and LSE; counters
    assert most == parts + 16 * 1184 * 4 * (128 + 4) + 2 * 8192  # of blocks that share the keys of a group

    def prepared(size):
        larger = replace(family, workspace=Expression(size, "test", (int,)))
        monkeypatch.setattr(preparing, "load_family", lambda _: larger)
        return preparing.prepare(genome, PROBLEM, GPU, False, 1)

    assert prepared(most).failure is None
    failure = prepared(most + 1).failure
    assert failure.status is Status.CONSTRAINTS
    assert (
        failure.reason
        == f"flash_simt: a workspace of {most + 1} bytes for {PROBLEM.workloads[0]}; it may have {most}"
    )
