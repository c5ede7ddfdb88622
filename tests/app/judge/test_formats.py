"""Answers in the forms of frameworks, the examples of docs/ called as frameworks call them, and the command.

The frameworks are not installed: OpenEvolve imports a file and calls `evaluate(path)`, Shinka runs one with
two options and reads two files, evotoolkit calls `evaluate(files)` of an object.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from tables import data

from evoflash.app.judge.answer import AnswerTiming, KernelAnswer
from evoflash.app.judge.formats import FORMS, openevolve, sol
from evoflash.app.judge.sources import RefusedError, read_submission

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
KERNELS = str(Path(__file__).with_name("test_foreign.py"))
RIGHT = data(KERNELS, "attention")
RACE = data(KERNELS, "frame").replace("BODY", "y[i / 2] = x[i];")
WRONG = RIGHT.replace("score *= scale", "score *= 1.1f * scale")
TIMED = AnswerTiming(2.0, 1.9, 2.1, 50, "cold", 1980, "sdpa_flash", 4.0, 2.0, (1.9, 2.1), "faster")


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_of_canned_proposals_the_right_one_is_first_for_openevolve(tmp_path) -> None:
    evaluator = example("openevolve_evaluator")
    proposals = {"no kernel at all": "int main() {}", "a race": RACE, "wrong": WRONG, "right": RIGHT}
    scores = {}
    for number, (name, text) in enumerate(proposals.items()):
        path = tmp_path / f"{number}.cu"
        path.write_text(text)
        scores[name] = evaluator.evaluate_stage1(str(path))["combined_score"]

    assert scores == {"no kernel at all": 0.0, "a race": 0.0, "wrong": 0.0, "right": 1.0}


def test_shinka_finds_its_two_files(tmp_path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(RACE)
    command = [sys.executable, EXAMPLES / "shinka_evaluate.py"]
    options = ["--program_path", path, "--results_dir", tmp_path / "results"]

    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    metrics = json.loads((tmp_path / "results" / "metrics.json").read_text())
    correct = json.loads((tmp_path / "results" / "correct.json").read_text())
    assert metrics["combined_score"] == 0.0
    assert "double-write-global" in metrics["text_feedback"]
    assert correct["correct"] is False
    assert correct["error"].startswith("incorrect")


def test_evotoolkit_is_told_what_is_wrong_by_line() -> None:
    task = example("evotoolkit_task").AttentionTask()

    result = task.evaluate({"kernel.cu": RACE})

    assert (result.valid, result.score) == (False, 0.0)
    assert "line 14" in result.feedback


def answer(**more):
    given = {"file": "kernel.cu", "sha256": "0" * 64, "status": "correct", "problem": "mission", **more}
    return KernelAnswer(**given)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", ["correct", "incorrect", "compile_error", "refused"])
def test_every_form_says_whether_it_is_correct(form, status) -> None:
    said = FORMS[form](answer(status=status))

    assert ('"correctness": true' in said or '"correct": 1.0' in said or '"correct": true' in said) == (
        status == "correct" and form in ("kernelbench", "openevolve", "shinka")
    )
    assert ("PASSED" in said or "check: pass" in said) == (status == "correct" and form in ("sol", "gpumode"))


def test_a_tie_earns_nothing_and_no_score_is_beyond_the_floor() -> None:
    tie = KernelAnswer("k", "", "correct", timing=AnswerTiming(
        3.99, None, None, 50, "cold", None, "sdpa_flash", 4.0, 1.0025, (0.99, 1.01), "tie"
    ))  # fmt: skip

    assert tie.score == 1.0
    assert answer(timing=TIMED, floor_us=1.0).score == 2.0
    assert answer(timing=TIMED, floor_us=2.5).score == 1.6
    assert answer(timing=TIMED, status="incorrect").score == 0.0
    assert openevolve(answer(timing=TIMED))["median_us"] == 2.0
    assert sol(answer(timing=TIMED))["evaluation"]["performance"]["latency_ms"] == 0.002


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("tilelang.json", '{"spec": {"language": "tilelang"}, "sources": []}', "CUDA, Python and Triton are"),
        ("no_file.json", '{"spec": {"language": "python"}, "sources": []}', "0 Python files"),
        (
            "entry.json",
            '{"spec": {"language": "python"}, "sources": [{"path": "a.py", "content": ""}]}',
            'name a function of its file: "a.py::run"',
        ),
        pytest.param(
            "triton.json",
            '{"spec": {"language": "triton"}, "sources": []}',
            "pip install triton",
            marks=pytest.mark.skipif(importlib.util.find_spec("triton") is not None, reason="Triton is here"),
        ),
        ("none.json", '{"spec": {"language": "cuda"}, "sources": []}', "0 CUDA files"),
    ],
)
def test_what_needs_host_code_is_refused_in_a_line(name, text, says, tmp_path) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(RefusedError, match=says) as caught:
        read_submission(tmp_path / name)

    assert "\n" not in str(caught.value)


def test_stdout_has_the_answer_alone_and_the_exit_code_says_it(tmp_path) -> None:
    solution = {
        "name": "mine", "definition": "x", "spec": {"languages": ["cuda_cpp"], "entry_point": "k.cu::own"},
        "sources": [{"path": "k.cu", "content": RACE}],
    }  # fmt: skip
    (tmp_path / "solution.json").write_text(json.dumps(solution))

    ended = forked.evoflash("evaluate", str(tmp_path / "solution.json"), "--json", "--seed", "3")

    said = json.loads(ended.stdout)
    assert ended.returncode == 3
    assert (said["schema_version"], said["status"], said["score"], said["seed"]) == (1, "incorrect", 0.0, 3)
    assert said["findings"][0]["line"] == 14


def test_a_file_without_its_comment_is_an_answer_too(tmp_path) -> None:
    (tmp_path / "kernel.cu").write_text("int main() {}")

    ended = forked.evoflash("evaluate", str(tmp_path / "kernel.cu"), "--json")

    assert ended.returncode == 2
    assert json.loads(ended.stdout)["status"] == "refused"
    assert ended.stderr.count("\n") == 1
