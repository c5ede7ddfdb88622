"""What workers offer: a search meets only those with its own code, and GPUs of its own model."""

from evoflash.evaluators.cluster import address as codes
from evoflash.evaluators.cluster.address import code, resources


def test_a_worker_offers_its_code_and_a_core_or_one_gpu_of_a_model():
    assert resources(gpu=None) == {code(): 1.0, "CPU": 1.0}
    assert resources(gpu="h200") == {code(): 2.0, "GPU": 2.0, "GPU h200": 2.0}  # one runs, one waits


def test_a_template_that_differs_is_other_code(tmp_path, monkeypatch):
    (tmp_path / "mine.cu.j2").write_text("one")
    monkeypatch.setattr(codes, "template_folders", lambda: (tmp_path,))
    known = code.__wrapped__()
    assert code.__wrapped__() == known
    (tmp_path / "mine.cu.j2").write_text("two")
    assert code.__wrapped__() != known
    assert known.startswith("evoflash ")
