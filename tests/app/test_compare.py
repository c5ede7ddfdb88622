"""What `evoflash compare` is asked, what it says, the noise it allows for; tests/on_gpu compares for real."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from forked import evoflash
from tables import table_of_cases

from evoflash.app.compare import (
    ComparedKernel,
    ComparisonResult,
    ComparisonRun,
    PairResult,
    as_dict,
    compare_by_name,
    contenders,
)
from evoflash.errors import DeviceError, EvoflashError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.gpu import launcher
from evoflash.gpu.launcher import PresentGpu
from evoflash.gpu.process.finals import FinalReport, FinalTask, conclusion
from evoflash.gpu.timing import noise_floor as noise
from evoflash.gpu.timing.paired import MINIMAL_EFFECT, PairedComparison
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_kernel
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views import kernel as compare_report
from evoflash.views.terminal import wrap

H200 = load_gpu("h200")
MISSION = parse_problem("mission")
W = str(MISSION.workloads[0])


def seed_of(family="flash_simt", problem=MISSION):
    loaded = load_family(family)
    space = loaded.space(problem.compile_keys(H200.arch), H200)
    return loaded.seeds_for(problem, space, H200)[0]


def found(*words, problem=None, db="none.db"):
    return contenders(words, problem=problem, spec=H200, db=db, seed=0)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("compare") / "evoflash.db")
    genome = seed_of()
    evaluation = Evaluation(
        genome,
        str(MISSION),
        "h200",
        Basis.ESTIMATED,
        Status.CORRECT,
        Rung.DONE,
        score_us=9.0,
        model_version="0",
    )
    with open_store(path) as store:
        key = RunKey(str(MISSION), "h200", Basis.ESTIMATED, "uniform", 0)
        run = store.begin(key, gpu_hash=H200.hash, budget=1, argv=[], environment={}, fresh=False)
        store.add(run, evaluation, Proposal(genome))
    return path, genome.id


def test_a_candidate_of_the_database_is_compiled_for_this_gpu_on_its_own_problem(database):
    path, genome_id = database
    problem, (first, second) = found(genome_id[:6], "sdpa_flash", db=path)
    assert str(problem) == str(MISSION)
    assert (first.name, second) == (genome_id, ComparedKernel("sdpa_flash"))
    assert [workload for workload, _ in first.task.timed] == list(MISSION.workloads)
    assert all(Path(cubin).exists() for _, cubin in first.task.cubins)
    assert len(first.task.checks) > 3


def test_an_exported_file_is_its_genome_on_the_problem_of_its_banner(tmp_path):
    path = tmp_path / "kernel.cu"
    path.write_text(export_kernel(seed_of(), MISSION, H200))
    problem, (first, _) = found(str(path), "sdpa_flash")
    assert str(problem) == str(MISSION)
    assert first.name == str(path)
    assert [launch.entry for _, launches in first.task.timed for launch in launches] == ["flash_simt"]


def test_a_file_of_ones_own_is_launched_as_its_comment_says(tmp_path):
    path = tmp_path / "mine.cu"
    header = (
        '/* evoflash check\nentry = "mine"\ngrid = ["seq_q", "heads", "batch"]\nblock = 32\n'
        'attention = { problem = "mission" }\n*/\n'
    )
    body = '#include "ef.h"\nextern "C" __global__ void mine() {}\nEF_EXPORT_KERNEL(mine)\n'
    path.write_text(header + body)
    _, (first, _) = found(str(path), "fa3", problem="b=2,h=4,s=100,d=64")
    ((workload, (launch,)),) = first.task.timed
    assert str(workload) == str(parse_problem("b=2,h=4,s=100,d=64"))
    assert launch.grid == (100, 4, 2)


def test_the_same_kernel_twice_has_two_names(database):
    path, genome_id = database
    _, both = found(genome_id, genome_id, db=path)
    assert [each.name for each in both] == [f"{genome_id} (1)", f"{genome_id} (2)"]


@table_of_cases(tuples=True)
def test_a_mistake_says_what_to_do(words, problem, says):
    with pytest.raises(UsageError, match=says):
        found(*words, problem=problem)


def test_kernels_made_for_different_problems_need_one_to_be_said(tmp_path, database):
    path, genome_id = database
    other = parse_problem("seed_short")
    exported = tmp_path / "other.cu"
    exported.write_text(export_kernel(seed_of(problem=other), other, H200))
    with pytest.raises(UsageError, match=r"made for .*512.* and .*256.*--problem"):
        found(genome_id, str(exported), db=path)
    problem, _ = found(genome_id, str(exported), db=path, problem="seed_short")
    assert str(problem) == str(other)


ITS_OWN = 'arguments = [{ name = "x", dtype = "f32", shape = [32], out = true }]'


@pytest.mark.parametrize(
    ("call", "text", "error"),
    [
        (ITS_OWN, "(float*) {}", "arguments of its own"),
        ("attention = {}", "() { nonsense; }", r"does not compile: .*nonsense"),
    ],
)
def test_a_kernel_that_cannot_be_judged_is_said_in_one_line(tmp_path, call, text, error):
    path = tmp_path / "mine.cu"
    path.write_text(
        f'/* evoflash check\nentry = "mine"\ngrid = 1\nblock = 32\n{call}\n*/\n#include "ef.h"\n'
        f'extern "C" __global__ void mine{text}\nEF_EXPORT_KERNEL(mine)\n'
    )
    with pytest.raises(EvoflashError, match=error) as said:
        found(str(path), "sdpa_flash", problem="mission")
    assert "\n" not in str(said.value)


@pytest.mark.skipif(
    os.path.exists("/dev/nvidia0"), reason="the messages are those of a machine without a GPU"
)
@pytest.mark.parametrize(
    "words", [("compare", "sdpa_flash", "sdpa_cudnn", "--problem", "mission"), ("doctor", "--noise")]
)
def test_without_a_gpu_it_is_one_line_and_exit_code_4(words):
    done = evoflash(*words)
    assert (done.returncode, done.stdout) == (4, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("evoflash: ")


def timing(median_us, protocol="pairs-cold"):
    return Timing(W, protocol, median_us, median_us - 0.1, median_us + 0.1, 40, sm_clock_mhz=1980)


def outcome_of(ratio, low, high, *, protocol="pairs-cold", notes=()):
    comparison = PairedComparison("mine", "sdpa_flash", W, protocol, ratio, low, high, n=10)
    return ComparisonResult((PairResult(comparison, (timing(5.0), timing(5.0 / ratio))),), notes=notes)


RUN = ComparisonRun((ComparedKernel("mine"), ComparedKernel("sdpa_flash")), MISSION, H200, 0)


@pytest.mark.parametrize("width", [80, 120])
def test_an_answer_looks_as_it_did(golden, width):
    faster = outcome_of(0.5, 0.498, 0.502).results
    unclear = outcome_of(0.999, 0.996, 1.002, protocol="pairs-hot").results
    both = ComparisonResult((*faster, *unclear), notes=("a note that the comparison leaves",))
    golden(f"screens/compare-{width}.txt", wrap(compare_report.describe_comparison(RUN, both), width) + "\n")


def test_the_text_says_which_is_faster_by_how_much_and_how_it_was_timed():
    said = compare_report.describe_comparison(RUN, outcome_of(0.5, 0.498, 0.502, notes=("left out",)))
    assert "A  mine\nB  sdpa_flash\n" in said
    assert "A is faster: 0.5000 [0.4980, 0.5020] of B's time (99.8% interval, 10 blocks" in said
    assert "A  5.00 us, p10 4.90, p90 5.10, 1980 MHz" in said
    assert "cold: replays of a graph" in said
    assert said.endswith("note: left out")


def test_an_unclear_answer_is_not_sold_as_a_ratio():
    said = compare_report.describe_comparison(RUN, outcome_of(0.999, 0.996, 1.002))
    assert "unclear: A takes 0.9990 [0.9960, 1.0020] of B's time" in said
    assert "0.3% counts as equal" in said


def test_single_calls_are_labelled_as_such():
    said = compare_report.describe_comparison(RUN, outcome_of(0.5, 0.49, 0.51, protocol="pairs-call"))
    assert "call: one eager call at a time, the host's cost included" in said


def test_json_has_times_in_us_the_ratio_and_the_answer():
    row = json.loads(json.dumps(as_dict(RUN, outcome_of(1.02, 1.01, 1.03))))
    (result,) = row["results"]
    assert (row["first"], row["second"], row["gpu"]) == ("mine", "sdpa_flash", "h200")
    assert (result["answer"], result["ratio"], result["first"]["median_us"]) == ("slower", 1.02, 5.0)


def report_of(*comparisons):
    baselines = {"sdpa_flash": {}}
    return FinalReport({}, comparisons, {}, {}, baselines)


def test_finals_say_from_which_other_finalists_the_winner_is_not_clearly_apart():
    def pair(first, second, low, high, protocol="final-cold"):
        return PairedComparison(first, second, W, protocol, (low + high) / 2, low, high)

    report = report_of(
        pair("a", "b", 0.97, 0.98),
        pair("c", "a", 0.999, 1.001),
        pair("d", "a", 1.02, 1.03),
        pair("b", "c", 1.02, 1.03),
        pair("a", "sdpa_flash", 0.5, 0.5),
        pair("a", "b", 1.02, 1.03, protocol="final-hot"),
    )
    assert conclusion(report, "a") == "faster than b, d; not clearly apart from c"


def test_the_noise_floor_is_three_standard_deviations_about_one():
    assert noise.floor_of([1.001, 0.999, 1.001, 0.999]) == pytest.approx(0.003, rel=1e-2)
    assert noise.floor_of([1.002] * 4) == pytest.approx(0.006, rel=1e-2)  # a bias counts, too


def present(name="NVIDIA H200"):
    return PresentGpu(name, 90, "13.0", "0000:01:00.0", ())


def kept(relative):
    return noise.NoiseEstimate(W, "cold", 20, relative, 0)


def test_a_measured_floor_is_kept_for_its_gpu_and_raises_what_counts_as_equal(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(launcher, "present_gpu", present)
    assert (noise.floor(), noise.describe()) == (MINIMAL_EFFECT, "")
    noise.keep([kept(0.008)], present())
    assert noise.floor() == 0.008
    assert FinalTask((), MISSION.workloads, H200, 0).noise == 0.008
    assert "cold 0.80%" in noise.describe()
    monkeypatch.setattr(launcher, "present_gpu", lambda: present("NVIDIA L4"))
    assert noise.floor() == MINIMAL_EFFECT


def test_a_quiet_machine_still_counts_three_tenths_of_a_percent_as_equal(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(launcher, "present_gpu", present)
    noise.keep([kept(0.0004)], present())
    assert noise.floor() == MINIMAL_EFFECT


def test_without_a_gpu_there_is_no_floor_and_no_error(monkeypatch):
    def none():
        raise DeviceError("no GPU")

    monkeypatch.setattr(launcher, "present_gpu", none)
    assert (noise.floor(), noise.describe()) == (MINIMAL_EFFECT, "")


@pytest.mark.parametrize(
    ("second_us", "says"),
    [(9.1, "~9.00 us and ~9.10 us: nearer than its error"), (19.0, "~19.00 us, which is farther apart than")],
)
def test_without_a_gpu_what_the_model_said_of_both_is_told(database, tmp_path, monkeypatch, second_us, says):
    path, genome_id = database
    copy = str(tmp_path / "two.db")
    shutil.copy(path, copy)
    with open_store(copy) as store:
        (run,) = store.runs()
        ((_, first),) = store.history(run)
        other = replace(first, genome=Genome("flash_simt", 1, (("warps", 2),)), score_us=second_us)
        store.add(run, other, Proposal(other.genome))

    def absent(_):
        raise DeviceError("no GPU can be used: take another machine.")

    monkeypatch.setattr(launcher, "present_spec", absent)
    with pytest.raises(DeviceError, match=re.escape(says)) as caught:
        compare_by_name(genome_id[:8], other.genome.id, problem=None, seed=0, db=copy)
    assert str(caught.value).startswith(
        "no GPU can be used: take another machine. For h200 the model estimates"
    )
    with pytest.raises(DeviceError, match=r"another machine\.$"):
        compare_by_name(genome_id[:8], "sdpa_cudnn", problem=None, seed=0, db=copy)
