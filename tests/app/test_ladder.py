"""`evoflash ladder`: steps that are valid where promised, evaluated in order, printed and drawn."""

import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from places import ROOT
from rich.console import Console

from evoflash.app.ladder import Climb, LadderResult, LadderStep, climb, genome_of, read_steps
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import known_gpus, load_gpu
from evoflash.views import ladder as steps_report

SMALL = "b=1,h=2,s=64,d=64"
STEPS = read_steps()
BY_NAME = {step.name: step for step in STEPS}
FIRST_AND_LAST = (BY_NAME["scalar"], BY_NAME["mma_sync"])


def test_the_path_is_the_one_that_is_told():
    assert [step.name for step in STEPS] == [
        "scalar",
        "wmma_qk",
        "wmma_pv",
        "warp_reductions",
        "cp_async",
        "vectorised",
        "tuned_tiles",
        "mma_sync",
    ]


@pytest.mark.parametrize("gpu", ["a100", "l4", "h200"])
@pytest.mark.parametrize(
    "problem", ["mission", "seed_long,causal", "s2k_d128,dtype=bf16", "gqa4k_d128,causal"]
)
def test_every_step_is_valid_and_another_kernel(problem, gpu):
    what, spec = parse_problem(problem), load_gpu(gpu)
    genomes = [genome_of(step, what, spec) for step in STEPS]

    for step, genome in zip(STEPS, genomes, strict=True):
        space = load_family(step.family).space(what.compile_keys(spec.arch), spec)
        assert space.violations(genome) == (), step.name
    assert len({genome.id for genome in genomes}) == len(STEPS)


@pytest.mark.parametrize("gpu", known_gpus())
def test_every_known_gpu_can_climb_the_mission(gpu):
    what, spec = parse_problem("mission"), load_gpu(gpu)
    for step in STEPS:
        space = load_family(step.family).space(what.compile_keys(spec.arch), spec)
        assert space.is_valid(genome_of(step, what, spec)), step.name


def test_a_step_keeps_what_the_step_before_it_set():
    before, after = BY_NAME["wmma_pv"].choices[0], BY_NAME["warp_reductions"].choices[0]

    changed = {name for name in after if after[name] != before.get(name)}

    assert changed == {"softmax", "lanes_per_row"}
    assert set(before) <= set(after)


def test_the_first_valid_choice_is_taken():
    what, spec = parse_problem("mission"), load_gpu("l4")
    large = {"warps": 8, "rows_per_warp": 32, "block_n": 128, "ctas_per_sm": 4}
    step = LadderStep("mma", "", "flash_mma", (large, {"warps": 1}))

    assert genome_of(step, what, spec).as_dict()["warps"] == 1
    assert genome_of(replace(step, choices=(large,)), what, spec).as_dict()["warps"] == 8


@pytest.fixture(scope="module")
def climbed() -> Climb:
    return climb(gpu="l4", problem=SMALL, evaluator="emulated", steps=FIRST_AND_LAST)


@pytest.mark.slow
def test_the_emulated_path_checks_and_times_every_step(climbed):
    assert climbed.is_correct
    assert climbed.basis is Basis.ESTIMATED
    first, last = climbed.results
    assert (first.over_previous, first.over_first) == (None, 1.0)
    assert last.over_first == first.evaluation.score_us / last.evaluation.score_us > 1
    assert last.over_previous == last.over_first
    flops = 4 * 2 * 64 * 64 * 64
    assert last.tflops == pytest.approx(flops / last.evaluation.score_us / 1e6)
    assert all(verdict.passed for result in climbed.results for verdict in result.evaluation.verdicts)
    assert all(result.evaluation.verdicts for result in climbed.results)


@pytest.mark.full
def test_results_are_told_one_by_one(climbed):
    seen: list[str] = []

    climb(
        gpu="l4",
        problem=SMALL,
        evaluator="emulated",
        steps=FIRST_AND_LAST[1:],
        on_result=lambda result: seen.append(steps_report.line(result)),
    )

    assert len(seen) == 1
    assert seen[0].startswith("mma_sync: ~")


def failing() -> LadderStep:
    """A step without a valid choice."""
    return LadderStep("too_large", "more threads than fit", "flash_simt", ({"warps": 8, "ctas_per_sm": 8},))


@pytest.mark.full
def test_a_step_that_fails_is_shown_with_its_reason_and_the_others_go_on():
    steps = (FIRST_AND_LAST[0], failing(), FIRST_AND_LAST[1])

    found = climb(gpu="l4", problem=SMALL, evaluator="emulated", steps=steps)

    assert [result.is_correct for result in found.results] == [True, False, True]
    assert not found.is_correct
    broken, last = found.results[1], found.results[2]
    assert broken.evaluation.status is Status.CONSTRAINTS
    assert (broken.tflops, broken.over_first) == (None, None)
    assert last.over_previous == last.over_first > 1
    assert "FAILED: constraints at checks: " in table(found)
    assert "threads_fit_sm" in table(found)


@pytest.mark.full
def test_without_the_first_step_nothing_is_over_the_first():
    found = climb(gpu="l4", problem=SMALL, evaluator="emulated", steps=(failing(), FIRST_AND_LAST[1]))

    assert (found.results[1].over_previous, found.results[1].over_first) == (None, None)
    assert found.results[1].tflops is not None


def table(found: Climb) -> str:
    out = io.StringIO()
    steps_report.print_table(found, Console(file=out, width=200))
    return out.getvalue()


def test_the_table_marks_its_estimates(climbed):
    text = table(climbed)

    assert "ESTIMATED by model" in text
    for result in climbed.results:
        assert f"~{result.evaluation.score_us:.2f}" in text
        assert result.step.change in text
    last = climbed.results[-1]
    assert f"~{last.over_first:.2f}x" in text
    assert f"~{last.tflops:.2f}" in text
    assert re.search(r"kernels, measured on h[12]00(, h[12]00)*( and h[12]00)?, nine of ten took", text)
    assert not re.search(r"(?<![~\d.])\d+\.\d\dx", text)


def test_a_measured_time_bears_no_mark_and_a_bound_does(climbed):
    first = climbed.results[0]
    measured = replace(first.evaluation, basis=Basis.MEASURED, score_us=12.5)

    assert steps_report.line(replace(first, evaluation=measured)) == "scalar: 12.50 us"
    (timing,) = measured.timings
    bound = replace(measured, timings=(replace(timing, censored=True),))
    assert steps_report.line(replace(first, evaluation=bound)) == "scalar: >= 12.50 us"


def test_the_json_holds_what_the_table_shows(climbed):
    document = json.loads(json.dumps(climbed.as_dict()))

    assert document["basis"] == "estimated"
    assert [row["step"] for row in document["steps"]] == ["scalar", "mma_sync"]
    assert document["steps"][1]["us"] == climbed.results[1].evaluation.score_us
    assert document["steps"][1]["values"]["block_n"] == 64


def test_the_chart_is_drawn_the_same_each_time(climbed, tmp_path):
    pytest.importorskip("matplotlib")
    chart = tmp_path / "ladder.svg"
    steps_report.check_plot(chart)

    steps_report.plot(climbed, chart)

    text = chart.read_text()
    ElementTree.fromstring(text)
    assert "mma_sync" in text
    assert "ESTIMATED" in text
    assert "(log scale)" in text
    steps_report.plot(climbed, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.svg", "ladder.svg"]


def test_a_chart_of_failures_alone_is_drawn_too(climbed, tmp_path):
    pytest.importorskip("matplotlib")
    failed = Evaluation(
        climbed.results[0].evaluation.genome,
        SMALL,
        "l4",
        Basis.MEASURED,
        Status.RUNTIME,
        Rung.SMOKE,
        "gone",
    )
    results = (LadderResult(BY_NAME["scalar"], failed, None, None, None),)

    steps_report.plot(replace(climbed, results=results), tmp_path / "ladder.png")

    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["ladder.pdf", "ladder", "nowhere/ladder.svg"])
def test_a_chart_that_cannot_be_written_is_refused_before_any_work(tmp_path, name):
    with pytest.raises(UsageError, match="--plot"):
        steps_report.check_plot(tmp_path / name)


def test_without_matplotlib_the_command_names_the_extra(tmp_path):
    """In a process where the import system knows no matplotlib."""
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from evoflash.cli.program import main\n"
        f"sys.argv = ['evoflash', 'ladder', '--gpu', 'l4', '--plot', {str(tmp_path / 'x.svg')!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.strip() == 'evoflash: --plot needs matplotlib: pip install "matplotlib>=3.9".'


def test_a_problem_of_another_operation_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="the ladder's kernels compute attention, not linear"):
        climb(problem="linear:m=1,n=1280,k=8192", gpu="l4", evaluator="emulated")
