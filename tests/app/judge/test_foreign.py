"""Kernels of somebody else: each has the verdict that it must, and changes nothing outside."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from tables import data, table_of_cases

import evoflash
from evoflash.app.check.subject import named_kernels
from evoflash.app.judge.foreign import JudgeOptions, judge_file
from evoflash.errors import UsageError
from evoflash.sandbox import boundary
from evoflash.sandbox.boundary import Boundary
from evoflash.trust.selftest.corpus import corpus
from scripts.validation.source_edits import edited_export, foreign_text

FRAME = data(__file__, "frame")
ATTENTION = data(__file__, "attention")
BASES = {name: data(__file__, name) for name in ("attention", "linear", "split", "paged", "own_arguments")}


def judged(path, text, *, stage="check", timeout_s=240.0, **more):
    path.write_text(text)
    options = JudgeOptions(stage=stage, timeout_s=timeout_s, seed=more.pop("seed", 3), **more)
    return judge_file(path, options, db="unused.db")


text_of = partial(foreign_text, {"frame": FRAME, **BASES})


def boundaries():
    return [kind for kind in ("bubblewrap", "landlock") if boundary._works(kind)]


@pytest.fixture(params=["bubblewrap", "landlock"])
def kind(request, monkeypatch):
    if not boundary._works(request.param):
        pytest.skip(f"no {request.param} here")
    monkeypatch.setattr(boundary, "_works", lambda kind: kind == request.param)
    return request.param


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A secret, in a file and in the environment, and a place that a kernel would write to."""
    (tmp_path / "secret").write_text("the right answer")
    monkeypatch.setenv("EVOFLASH_TEST_SECRET", "the right answer")
    before = sorted(os.listdir(tmp_path))
    yield tmp_path
    assert sorted(set(os.listdir(tmp_path)) - {"kernel.cu"}) == before
    assert (tmp_path / "secret").read_text() == "the right answer"


@pytest.mark.sample(4)
@table_of_cases()
def test_each_kernel_has_the_verdict_that_it_must(base, body, above, edits, status, kinds, watched) -> None:
    text = text_of(base=base, body=body, above=above, edits=edits or ())
    text = text.replace("FOLDER", str(watched))

    answer = judged(watched / "kernel.cu", text)

    assert answer.status == status, answer.text_feedback
    assert {each["kind"] for each in answer.findings} >= set(kinds or ())
    assert "the right answer" not in json.dumps(answer.as_dict())
    assert (answer.score > 0) == (status == "correct")


@pytest.mark.sample(2)
@table_of_cases()
def test_neither_sandbox_lets_a_kernel_out(kind, body, above, watched) -> None:
    text = text_of(body=body, above=above).replace("FOLDER", str(watched))

    answer = judged(watched / "kernel.cu", text, timeout_s=20.0)

    assert answer.sandbox == kind
    assert not answer.is_correct


@pytest.mark.sample(3)
@table_of_cases()
def test_kernels_of_other_operations_and_of_several_launches_are_judged(
    base, edits, status, tmp_path
) -> None:
    answer = judged(tmp_path / "kernel.cu", text_of(base=base, edits=edits or ()))

    assert answer.status == status, answer.text_feedback


def test_an_edited_export_meets_the_small_gpus_and_constants_of_the_pre_flight(tmp_path) -> None:
    (fraud,) = (each for each in corpus() if each.name == "pieces a grid apart")
    path = tmp_path / "kernel.cu"
    path.write_text(edited_export(fraud))

    (subject,) = named_kernels(str(path), None, [], problem=None, gpu=None, db="unused.db")
    answer = judged(path, path.read_text())

    assert {each.case.sms for each in subject.planned} >= {0, 1, 3}
    assert len({each.text for each in subject.planned}) > 1
    assert answer.status == "incorrect", answer.text_feedback


@pytest.mark.full  # 15 s
def test_an_edited_export_runs_behind_a_launch_that_has_not_ended(tmp_path) -> None:
    """Its threads that multiply read what that launch writes, and do not wait for it."""
    (fraud,) = (each for each in corpus(Path("scripts/validation/ninth_set")) if each.name == "P32")

    answer = judged(tmp_path / "kernel.cu", edited_export(fraud))

    assert answer.status == "incorrect", answer.text_feedback
    assert "missing-grid-wait" in {each["kind"] for each in answer.findings}


def test_a_right_kernel_is_correct_in_either_sandbox(kind, tmp_path) -> None:
    answer = judged(tmp_path / "kernel.cu", ATTENTION)

    assert (answer.status, answer.sandbox, answer.score) == ("correct", kind, 1.0), answer.text_feedback
    assert answer.worst is not None
    assert answer.basis == "none"


def test_hidden_shapes_are_drawn_by_the_seed(tmp_path) -> None:
    from evoflash.app.check.subject import hidden_runs

    path = Path(tmp_path / "kernel.cu")
    path.write_text(ATTENTION)

    drawn = [tuple(each.case.workload for each in hidden_runs(path, None, seed=seed)) for seed in (1, 2, 1)]

    assert drawn[0] == drawn[2] != drawn[1]


def test_a_header_in_a_file_of_its_own_stands_for_the_comment(tmp_path) -> None:
    _, header, text = BASES["own_arguments"].replace("/* evoflash check\n", "*/\n", 1).split("*/\n", 2)
    launch = tmp_path / "launch.toml"
    launch.write_text(header.replace('attention = { problem = "b=2,h=3,s=48,d=16" }', "attention = {}"))

    path = tmp_path / "kernel.cu"
    path.write_text(text)

    answer = evoflash.evaluate(path, header=launch, problem="b=1,h=2,s=40,d=16", stage="check", seed=3)

    assert answer.status == "correct", answer.text_feedback
    with pytest.raises(UsageError, match="header goes with"):
        evoflash.evaluate("3f", header=launch)
    assert (answer.worst or {})["shape"].startswith("b=1,h=2,hkv=2,sq=40")
    with pytest.raises(UsageError, match=r"no comment that says how to launch it.* --header"):
        judged(tmp_path / "kernel.cu", text)


def test_without_a_sandbox_nothing_is_run(monkeypatch, tmp_path) -> None:
    from evoflash.errors import SandboxError

    monkeypatch.setattr(boundary, "_works", lambda kind: False)

    with pytest.raises(SandboxError) as caught:
        judged(tmp_path / "kernel.cu", ATTENTION)
    assert caught.value.exit_code == 5
    assert boundary.found_boundary(is_unsafe=True) == Boundary("none")
