"""What a GPU process has ready before its context: kernels that check are compiled beside the references."""

from types import SimpleNamespace

from evoflash.gpu import comparisons, launcher
from evoflash.gpu.process.warm_up import prepare
from evoflash.operations.attention.workload import parse_workload

SMALL = parse_workload("b=1,h=1,s=16,d=16")


def test_a_process_that_hurries_compiles_what_checks_the_first_candidate(monkeypatch):
    compiled = []
    monkeypatch.setattr(launcher, "present_gpu", lambda: SimpleNamespace(compute_capability=90))
    monkeypatch.setattr(comparisons, "cubin_path", lambda arch, path: compiled.append((arch, path)))
    prepare((SMALL,), (SMALL,), 0, hurries=True)
    sources = {path for _, path in compiled}
    assert sources >= {comparisons.SOURCE}
    assert {path.name for path in sources} == {"comparisons.cu", "reference.cu"}
    assert {arch for arch, _ in compiled} == {"sm_90"}


def test_a_stand_by_leaves_that_to_it(monkeypatch):
    monkeypatch.setattr(comparisons, "cubin_path", lambda *_: 1 / 0)
    prepare((SMALL,), (SMALL,), 0)
