"""What a GPU process has ready before its context: kernels that check are compiled beside the references."""

from types import SimpleNamespace

from evoflash.gpu import comparisons, launcher
from evoflash.gpu.process.warm_up import prepare
from evoflash.operations.attention.reference import REFERENCE
from evoflash.operations.attention.workload import parse_workload

SMALL = parse_workload("b=1,h=1,s=16,d=16")


def test_a_process_that_hurries_compiles_what_checks_the_first_candidate(monkeypatch):
    compiled = []
    monkeypatch.setattr(launcher, "present_gpu", lambda: SimpleNamespace(compute_capability=90))
    monkeypatch.setattr(comparisons, "cubin_of", lambda *what: compiled.append(what))
    prepare((SMALL,), (SMALL,), 0, hurries=True)
    known = {"comparisons": comparisons.SOURCE.read_text(), REFERENCE.entry: REFERENCE.text}
    assert sorted(compiled) == sorted(("sm_90", *each) for each in known.items())


def test_a_stand_by_leaves_that_to_it(monkeypatch):
    monkeypatch.setattr(comparisons, "cubin_of", lambda *_: 1 / 0)
    prepare((SMALL,), (SMALL,), 0)
