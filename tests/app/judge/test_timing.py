"""What a comparison that ends without a time means for a kernel that is judged. Compares nothing."""

from pathlib import Path

import pytest

from evoflash.app.compare import ComparisonFailedError
from evoflash.app.judge import foreign as timing
from evoflash.errors import UsageError
from evoflash.gpu import baselines
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

KERNEL = Path("mine.cu")
H100 = load_gpu("h100")


@pytest.mark.parametrize(
    ("problem", "cold", "warm"),
    [
        ("linear:m=4,n=1024,k=1024,dtype=bf16", 2105344 / 3.35e6, 0.0078),
        ("b=8,h=32,hkv=8,sq=1,skv=2048,d=64,page=16,dtype=bf16", 33619968 / 3.35e6, 0.1254),
        ("mission", 0.5015, 0.5015),  # which computes for longer than it reads
    ],
)
def test_the_floor_of_a_cold_call_has_its_inputs_come_from_memory(problem, cold, warm) -> None:
    (workload,) = parse_problem(problem).workloads

    floors = [timing.floor_us(workload, H100, protocol) for protocol in ("cold", "calls from outside")]

    assert floors == pytest.approx([cold, warm], rel=0.02)


def judged(monkeypatch, raised):
    """What is said of a kernel for which every library's comparison ends so."""
    asked = []

    def compare(first, second, **options):
        asked.append(second)
        raise raised(second)

    monkeypatch.setattr(timing, "compare_by_name", compare)
    with pytest.raises(timing.NotTimedError) as found:
        timing.time_beside_baseline(KERNEL, problem="mission", seed=1, db="none.db")
    return found.value, asked


def test_a_kernel_that_fails_or_takes_the_process_along_is_wrong(monkeypatch) -> None:
    for blamed in ("mine.cu", ""):
        found, asked = judged(
            monkeypatch, lambda name, who=blamed: ComparisonFailedError("it hangs", blamed=who)
        )

        assert found.is_wrong
        assert len(asked) == 1


@pytest.mark.parametrize(
    "error_of",
    [
        lambda name: ComparisonFailedError("refused", blamed=f"{name} (a build)"),
        lambda name: UsageError("no kernel for that"),
    ],
    ids=["it fails", "it is none for the problem"],
)
def test_a_library_without_a_time_is_passed_over_and_no_fault_of_the_kernel(monkeypatch, error_of) -> None:
    found, asked = judged(monkeypatch, error_of)

    assert not found.is_wrong
    assert tuple(asked) == baselines.computing("attention", baselines.DEFAULT)


def test_a_busy_gpu_makes_no_kernel_wrong(monkeypatch) -> None:
    found, asked = judged(monkeypatch, lambda name: ComparisonFailedError("busy", is_noise=True))

    assert not found.is_wrong
    assert len(asked) == 1
