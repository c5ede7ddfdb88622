"""Python that launches kernels: each file has the verdict that it must. What is called needs PyTorch."""

import json
import time
from glob import glob
from pathlib import Path

import pytest
from tables import data, table_of_cases

from evoflash.app.judge import python_forms
from evoflash.app.judge.foreign import JudgeOptions, judge_file
from evoflash.app.judge.python_text import read_python
from evoflash.errors import SandboxError, UsageError
from evoflash.sandbox.boundary import Boundary

FRAME, PAGED, ON_PAGES = (data(__file__, name) for name in ("frame", "paged", "on_pages"))
needs_torch = pytest.mark.skipif(not python_forms.has_torch(), reason="no PyTorch here")


def text_of(*, above="", body="return sdpa(q, k, v)", folder=""):
    return FRAME.replace("ABOVE", above).replace("BODY", body).replace("FOLDER", folder)


def judged(path, text):
    path.write_text(text)
    return judge_file(path, JudgeOptions(stage="check", seed=3, timeout_s=100.0), db="unused.db")


@table_of_cases()
def test_a_file_that_reaches_for_the_judge_is_a_hack_before_it_runs(above, body, tmp_path) -> None:
    text = text_of(above=above or "", body=body or "return sdpa(q, k, v)")

    answer = judged(tmp_path / "kernel.py", text)

    assert (answer.status, answer.checks, answer.score) == ("hack", 0, 0.0), answer.text_feedback
    assert answer.findings[0]["kind"] == "tampering"
    assert answer.findings[0]["line"] >= 4


@needs_torch
@pytest.mark.sample(4)
@table_of_cases()
def test_each_python_file_has_the_verdict_that_it_must(above, body, status, tmp_path) -> None:
    (tmp_path / "secret").write_text("x")

    answer = judged(tmp_path / "kernel.py", text_of(above=above or "", body=body, folder=str(tmp_path)))

    assert answer.status == status, answer.text_feedback
    assert not (tmp_path / "made").exists()


@needs_torch
def test_a_model_and_a_function_are_called_as_their_frameworks_do(tmp_path) -> None:
    model = "class ModelNew(torch.nn.Module):\n    def forward(self, q, k, v): return sdpa(q, k, v)"
    function = "def run(q, k, v): return sdpa(q, k, v)"
    head = FRAME.partition("ABOVE")[0]

    for text in (model, function):
        assert judged(tmp_path / "kernel.py", f"{head}\n{text}\n").status == "correct"


@needs_torch
@table_of_cases()
def test_a_solution_is_called_as_its_format_says(head, body, spec, status, tmp_path) -> None:
    text = f"{FRAME.partition('ABOVE')[0]}\n{head}\n    {body}\n"
    spec = {"language": "python", "entry_point": "main.py::solve", **(spec or {})}
    sources = [{"path": "main.py", "content": text}, {"path": "README.md", "content": "read me"}]

    answer = judged(tmp_path / "solution.json", json.dumps({"spec": spec, "sources": sources}))

    assert answer.status == status, answer.text_feedback
    assert answer.file.endswith("solution.json:main.py")


@needs_torch
@pytest.mark.sample(3)
@table_of_cases()
def test_attention_on_pages_is_called_by_the_names_of_flashinfers_traces(
    problem, edits, status, tmp_path
) -> None:
    text = PAGED
    for before, after in edits or ():
        assert before in text, before
        text = text.replace(before, after)
    (tmp_path / "kernel.py").write_text(text)

    options = JudgeOptions(problem=f"{ON_PAGES}{problem or ''}", stage="check", seed=3, timeout_s=100.0)
    answer = judge_file(tmp_path / "kernel.py", options, db="unused.db")

    assert answer.status == status, answer.text_feedback


@needs_torch
def test_a_timed_call_that_repeats_an_earlier_answer_is_wrong() -> None:
    from evoflash.app.judge import python_timing
    from evoflash.problem import parse_problem

    (workload,) = parse_problem("b=1,h=2,s=48,d=16").workloads
    text = text_of(above="kept = {}", body="return kept.setdefault(q.shape, sdpa(q, k, v))")
    deadline_s = time.monotonic() + 60

    with (
        python_forms.python_caller(
            text, "custom_kernel", found(), device="cpu", deadline_s=deadline_s
        ) as caller,
        pytest.raises(python_forms.PythonCallError, match="a timed call is wrong"),
    ):
        python_timing.check_timed_calls(caller, workload, seed=1)


@needs_torch
@pytest.mark.skipif(bool(glob("/dev/nvidia*")), reason="there is a GPU")
def test_a_gpu_that_the_sandbox_has_not_is_no_fault_of_the_file() -> None:
    asked = python_forms.python_caller(
        text_of(), "custom_kernel", found(), device="cuda", deadline_s=time.monotonic() + 60
    )
    with asked as caller, pytest.raises(SandboxError, match="PyTorch finds no GPU in the sandbox"):
        caller.ask({"do": "show", "which": 0})


def found() -> Boundary:
    from evoflash.sandbox.boundary import found_boundary

    return found_boundary()


def test_without_pytorch_one_line_says_so(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(python_forms, "has_torch", lambda: False)

    answer = judged(tmp_path / "kernel.py", text_of())

    assert answer.status == "refused"
    assert "pip install torch" in answer.reason
    assert "\n" not in answer.reason


def test_without_nvcc_inline_cuda_is_refused_in_a_line(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(python_forms, "has_torch", lambda: True)
    monkeypatch.setenv("PATH", "/nowhere")

    read = read_python(Path("k.py"), text_of(above="from torch.utils.cpp_extension import load_inline"))

    assert "nvcc" in read.refusal


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def other(): ...", "does not define one"),
        ("def run(:", "no Python"),
        ("def run(): ...", "is not said"),
    ],
)
def test_what_cannot_be_judged_is_said_in_a_line(text, says, tmp_path) -> None:
    with pytest.raises(UsageError, match=says):
        judged(tmp_path / "kernel.py", text)
