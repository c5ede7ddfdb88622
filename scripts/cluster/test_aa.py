"""What is made of the outcomes of two GPUs; the outcomes are made up."""

import pytest

from evoflash.evaluation import Rung, Status
from evoflash.gpu.process.outcome import GpuOutcome

pytest.importorskip("distributed", reason="needs Dask: pip install '.[cluster]'")

from scripts.cluster.aa import summary


def outcomes(gpu, us, anchor_us):
    noted = {"gpu_uuid": gpu, "anchor": "a cold-relative"}
    return [
        GpuOutcome(
            "kernel",
            Status.CORRECT,
            Rung.DONE,
            score_us=us * (1 + 0.0005 * at),
            environment={**noted, "anchor_us": f"{anchor_us * (1 + 0.0005 * at):.6g}"},
        )
        for at in range(8)
    ]


@pytest.mark.parametrize(("second_us", "is_same"), [(20.02, True), (20.3, False)])
def test_a_slow_gpu_shows_in_the_anchors_time_and_a_wrong_ratio_in_the_kernels(second_us, is_same):
    found = summary([*outcomes("GPU-a", 20.0, 10.0), *outcomes("GPU-b", second_us, 11.0)])
    (pair,) = found["pairs"]
    assert pair["gpus"] == ["GPU-a", "GPU-b"]
    assert pair["within_0.5_percent"] == is_same
    assert pair["low"] < 20.0 / second_us < pair["high"]
    assert [each["factor"] for each in found["anchor_on_each_gpu"]] == pytest.approx([1.0, 1.1], abs=0.001)
    assert [each["n"] for each in found["normalised_us"].values()] == [8, 8]
