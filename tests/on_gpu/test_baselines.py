"""Library baselines on a real GPU: each that is installed is right."""

import pytest
from on_gpu.libraries import SQUARE, judged

from evoflash.gpu.baselines import NAMES
from evoflash.operations.attention.workload import AttentionWorkload

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WORKLOADS = (
    SQUARE,
    AttentionWorkload(1, 8, 4, 256, 512, 64, "fp16", causal=True),
    AttentionWorkload(2, 8, 2, 384, 384, 128, "bf16", causal=True),
    AttentionWorkload(2, 32, 8, 1, 2048, 128),
)


@pytest.mark.parametrize("name", NAMES)
def test_each_library_is_right_or_says_why_it_is_absent(name, spec, libraries):
    pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")
    for workload in WORKLOADS:
        ending = libraries.submit(judged, name, workload, spec, timeout_s=300).result()
        assert ending.value is not None, ending.reason
        absent, verdict, environment = ending.value
        print(f"\n  {workload}: {absent or verdict} {environment}", end="")
        assert absent or verdict.passed, verdict.reason
        assert bool(absent) != bool(environment.get("torch"))
