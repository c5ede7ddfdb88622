"""What a comparison that ends without a time means for a kernel that is judged. Compares nothing."""

from pathlib import Path

import pytest

from evoflash.app.compare import ComparisonFailedError
from evoflash.app.judge import timing
from evoflash.errors import UsageError
from evoflash.gpu import baselines

KERNEL = Path("mine.cu")


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


def test_a_library_that_fails_is_passed_over_and_no_fault_of_the_kernel(monkeypatch) -> None:
    found, asked = judged(
        monkeypatch, lambda name: ComparisonFailedError("refused", blamed=f"{name} (a build)")
    )

    assert not found.is_wrong
    assert tuple(asked) == baselines.computing("attention", baselines.DEFAULT)


def test_a_library_that_is_none_for_the_problem_is_passed_over(monkeypatch) -> None:
    found, asked = judged(monkeypatch, lambda name: UsageError("no kernel for that"))

    assert not found.is_wrong
    assert tuple(asked) == baselines.computing("attention", baselines.DEFAULT)


def test_a_busy_gpu_makes_no_kernel_wrong(monkeypatch) -> None:
    found, asked = judged(monkeypatch, lambda name: ComparisonFailedError("busy", is_noise=True))

    assert not found.is_wrong
    assert len(asked) == 1
