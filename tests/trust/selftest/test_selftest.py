"""The self-test: every fraud is rejected where it is named, and the self-test itself can fail."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from forked import evoflash
from places import ROOT
from tables import data, table_of_cases
from waiting import LIMIT_S

from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Rung, Status
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.process.warm_up import Jobs
from evoflash.gpu.process.worker import GpuWorker
from evoflash.kernels.gxx import KernelBuildError
from evoflash.specs import load_gpu
from evoflash.trust.selftest import run as selftest
from evoflash.trust.selftest import staged_frauds
from evoflash.trust.selftest.corpus import (
    End,
    ExpectedRejection,
    Fraud,
    FraudResult,
    build_fraud,
    corpus,
    kernels,
    outcome,
)
from evoflash.trust.selftest.run import SelfTest, climb, self_test
from evoflash.views import doctor as report

GPU = load_gpu("h200")
PREFLIGHT = ExpectedRejection({Rung.PREFLIGHT: "wrong"})

# Issue 5, item 2: what the corpus must hold, and what it is called here.
DEMANDED = data(__file__, "DEMANDED")


def fraud_of(name: str) -> Fraud:
    return next(fraud for fraud in corpus() if fraud.name == name)


def everything() -> set[str]:
    at_size = {f"{m.name}, {w.seq_kv} keys" for m in staged_frauds.MISTAKES for w in staged_frauds.WORKLOADS}
    return at_size | {each.name for each in (*corpus(), *staged_frauds.BOOKS, *staged_frauds.CHEATS)}


def text_and_launches(fraud: Fraud):
    candidate, family = build_fraud(fraud, GPU)
    return candidate.source, family.launches(candidate.genome, fraud.kernel.problem, GPU)


def nothing(*_):
    """A GPU process that needs no GPU."""


def gullible(task: GpuTask) -> GpuOutcome:
    """A GPU that rejects zeros alone, and not for what they are where they are NaN."""
    reasons = {"writes zeros": "w: honest in normal: far off", "no-op": "w: lse in normal: far off"}
    if task.genome_id in reasons:
        return GpuOutcome(task.genome_id, Status.CORRECTNESS, Rung.CORRECTNESS, reasons[task.genome_id])
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)


def time_gullibly(task: GpuTask, checked: GpuOutcome) -> GpuOutcome:
    return replace(checked, rung=Rung.DONE)


CHEAPEST = "wmma"


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(name, marks=() if name == CHEAPEST else pytest.mark.full)
        for name in sorted({fraud.kernel.name for fraud in corpus()})
    ],
)
def test_the_frauds_of_a_kernel_are_rejected_and_its_controls_accepted_without_a_gpu(kernel):
    frauds = {f.name: f for f in corpus() if f.kernel.name == kernel}
    found = {
        each.name: each
        for each in self_test(only=kernel, time_limit_s=600).outcomes
        if each.place == "emulator"
    }

    assert set(found) >= set(frauds)
    assert [found[name] for name in frauds if not found[name].is_good] == []
    assert any(found[name].end is End.ACCEPTED for name, fraud in frauds.items() if fraud.is_control)


@pytest.mark.slow
def test_the_books_and_the_mistakes_at_size_end_as_they_must_without_a_gpu():
    found = self_test(only="NumPy, records", time_limit_s=600).outcomes

    names = {each.name for each in (*staged_frauds.BOOKS, *staged_frauds.MISTAKES)}
    assert {each.name.partition(", ")[0] for each in found} == {name.partition(", ")[0] for name in names}
    assert {each.place for each in found} == {"NumPy", "records"}
    assert len(found) == len(staged_frauds.BOOKS) + 2 * len(staged_frauds.MISTAKES)
    assert [each for each in found if not each.is_good] == []


@pytest.mark.full
@pytest.mark.slow
def test_every_fraud_is_rejected_and_every_control_accepted_without_a_gpu():
    found = self_test(time_limit_s=900)

    here = [each for each in found.outcomes if each.place != "GPU"]
    assert [each for each in here if not each.is_good] == []
    assert sum(each.end is End.REJECTED for each in here) >= 100
    assert {each.name for each in found.outcomes} == everything()
    assert {each.name for each in here if each.end is End.ACCEPTED} >= {f"honest {k.name}" for k in kernels()}


def test_the_corpus_is_large_and_holds_what_was_demanded():
    frauds = [f.name for f in corpus() if not f.is_control]
    others = [b.name for b in staged_frauds.BOOKS if b.words] + [
        c.name for c in staged_frauds.CHEATS if c.words
    ]

    assert len(set(frauds)) == len(frauds) >= 60
    assert len({*frauds, *others}) == len(frauds) + len(others)
    assert set(DEMANDED.values()) - {*frauds, *others} == set()
    assert {f.kernel.family for f in corpus()} >= {"flash_simt", "flash_wmma", "flash_mma"}


@pytest.mark.parametrize("fraud", corpus(), ids=lambda fraud: f"{fraud.kernel.name}-{fraud.name}")
def test_every_fraud_says_where_it_must_end(fraud):
    if fraud.is_control:
        assert not fraud.emulated.rungs | fraud.measured.rungs
    else:
        assert all(bool(ends.rungs) != bool(ends.skip) for ends in (fraud.emulated, fraud.measured))
        assert fraud.emulated.rungs or fraud.measured.rungs
        assert text_and_launches(fraud) != text_and_launches(fraud_of(f"honest {fraud.kernel.name}"))


@pytest.mark.full
def test_an_honest_kernel_sold_as_a_fraud_slips_through():
    harmless = replace(fraud_of("no-op"), patch=(("#include", "// as it was\n#include"),))

    found = outcome("harmless", "emulator", harmless.emulated, selftest.try_fraud(harmless, GPU, 1))

    assert (found.end, found.is_good) == (End.SLIPPED, False)


def test_a_fraud_sold_as_a_control_is_rejected():
    found = outcome("no-op", "emulator", ExpectedRejection(), selftest.try_fraud(fraud_of("no-op"), GPU, 1))

    assert (found.end, found.is_good) == (End.REFUSED, False)


@pytest.mark.parametrize(
    ("ends", "end"),
    [
        (PREFLIGHT, End.REJECTED),
        (ExpectedRejection({Rung.PREFLIGHT: "lse in"}), End.ELSEWHERE),  # for another reason
        (ExpectedRejection({Rung.RENDER: "a device global"}), End.SLIPPED),  # the lint said nothing
        (ExpectedRejection({Rung.PREFLIGHT: "wrong", Rung.RENDER: "."}), End.SLIPPED),
        (ExpectedRejection({Rung.PREFLIGHT: "wrong", Rung.RENDER: "."}, every=False), End.REJECTED),
        (ExpectedRejection({Rung.RENDER: "."}, every=False), End.ELSEWHERE),
    ],
)
def test_a_rejection_counts_only_where_and_as_it_is_named(ends, end):
    fraud = replace(fraud_of("writes zeros"), emulated=PREFLIGHT)  # correctness is not asked

    assert outcome(fraud.name, "emulator", ends, selftest.try_fraud(fraud, GPU, 1)).end is end


def test_what_does_not_compile_is_no_rejection():
    broken = replace(fraud_of("no-op"), patch=(("#include", "this is no C++\n#include"),))

    with pytest.raises(KernelBuildError):
        selftest.try_fraud(broken, GPU, 1)
    with pytest.raises(EvoflashError, match="NVRTC refuses it"):
        selftest.task_of(broken, GPU, 1)


def test_a_patch_that_does_not_fit_its_kernel_is_told():
    with pytest.raises(UsageError, match="0 times in simt: no such line"):
        build_fraud(replace(fraud_of("no-op"), patch=(("no such line", ""),)), GPU)


def test_a_broken_fraud_and_one_without_time_are_not_good(monkeypatch):
    broken = replace(fraud_of("no-op"), patch=(("#include", "this is no C++\n#include"),))
    monkeypatch.setattr("evoflash.trust.selftest.run.corpus", lambda: (broken,))

    assert [each.end for each in self_test(only="no-op").outcomes] == [End.BROKEN]
    assert [each.end for each in self_test(only="no-op", time_limit_s=0).outcomes] == [End.NOT_RUN]


@pytest.mark.parametrize("mistake", staged_frauds.MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_at_size_is_found_and_the_right_answer_is_not(mistake):
    (workload, _) = staged_frauds.WORKLOADS
    found = outcome(
        mistake.name,
        "NumPy",
        mistake.expected_rejection,
        staged_frauds.try_mistake(mistake.name, workload, 3),
    )

    assert found.is_good, found


@pytest.mark.parametrize("book", staged_frauds.BOOKS, ids=lambda book: book.name)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(17)
def test_the_books_are_believed_only_where_they_are_right(book, seed):
    found = outcome(book.name, "records", book.expected_rejection, book.answer(seed))

    assert found.is_good, found


def test_a_task_for_the_gpu_has_the_frauds_code_and_the_shapes_of_a_search():
    honest, wrong = (selftest.task_of(fraud_of(name), GPU, 1) for name in ("honest mma", "scores ignored"))
    many = selftest.task_of(fraud_of("one tile of many dropped"), GPU, 1)

    assert honest.cubins != wrong.cubins
    assert honest.checks == wrong.checks
    assert {workload.compile_key(GPU.arch) for workload, _ in many.checks} == {many.cubins[0][0]}
    assert many.timed[0][0].seq_kv == 32768


def test_the_launch_of_a_fraud_is_the_one_that_it_asks_for():
    candidate, family = build_fraud(fraud_of("launch that fails silently"), GPU)
    (launch,) = family.launches(candidate.genome, fraud_of("no-op").kernel.problem, GPU)
    split, halves = build_fraud(fraud_of("combine not launched"), GPU)

    assert launch.smem_bytes == 300 * 1024
    assert len(halves.launches(split.genome, fraud_of("combine not launched").kernel.problem, GPU)) == 1


@table_of_cases()
def test_what_the_gpu_says_counts_only_where_and_as_it_is_named(status, rung, reason, end):
    fraud = fraud_of("honest until it is timed")
    reached = GpuOutcome(fraud.name, Status(status), Rung(rung), reason)

    assert outcome(fraud.name, "GPU", fraud.measured, selftest.rejection_of(reached)).end is End(end)


@pytest.mark.full
def test_the_gpus_half_says_what_each_fraud_came_to():
    names = ("writes zeros", "no-op", "last key dropped", "honest simt", "race on the scores")
    broken = replace(fraud_of("rows left out"), patch=(("#include", "this is no C++\n#include"),))
    jobs = Jobs(warm_up=nothing, precompute_references=nothing, check=gullible, time_correct=time_gullibly)

    with GpuWorker(jobs=jobs) as worker:
        end_s = time.monotonic() + LIMIT_S
        found = list(climb([*map(fraud_of, names), broken], GPU, worker, end_s))
        late = list(climb([fraud_of("no-op")], GPU, worker, time.monotonic()))

    ends = (End.REJECTED, End.ELSEWHERE, End.SLIPPED, End.ACCEPTED, End.SKIPPED, End.BROKEN)
    assert tuple(each.end for each in found) == ends
    assert [each.end for each in late] == [End.NOT_RUN]


def test_a_process_that_dies_without_a_word_is_a_complaint():
    reached = GpuOutcome("x", Status.RUNTIME, Rung.SMOKE)

    assert selftest.rejection_of(reached) == {Rung.SMOKE: "runtime"}


def test_the_report_repeats_what_is_wrong_and_counts():
    good = FraudResult("no-op", "emulator", End.REJECTED, "preflight: non-finite in normal")
    bad = FraudResult("writes zeros", "GPU", End.SLIPPED, "no rung complained")
    found = SelfTest((bad, good), "NVIDIA H200", 12.3)

    assert report.totals(found).splitlines() == [
        report.line(bad),
        "1 SLIPPED THROUGH, 1 rejected; in 12 s, NVIDIA H200",
    ]
    read = json.loads(json.dumps(found.as_dict()))
    assert (read["good"], read["outcomes"][0]["end"]) == (False, "SLIPPED THROUGH")


@table_of_cases()
@pytest.mark.full
def test_doctor_tests_itself(arguments, code, says):
    done = evoflash("doctor", "--self-test", *arguments)

    assert done.returncode == code, done.stderr
    assert says in done.stdout + done.stderr


def test_the_page_lists_the_corpus_as_it_is():
    command = [sys.executable, "-m", "scripts.pages.self_test", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
