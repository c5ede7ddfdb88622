"""Genomes under way: order, twins, what is screened and what is proven; GPU and processes are made up."""

import time
from concurrent.futures import CancelledError, Future
from dataclasses import replace

import pytest
from waiting import LIMIT_S

from evoflash.evaluation import Build, Rung, Status, Timing
from evoflash.evaluators.gpu_tasks import Incumbents, anchor_of
from evoflash.evaluators.measured import Climbs, Steps
from evoflash.evaluators.pipeline import Duplicates
from evoflash.evaluators.prepare import ELITES, Preparation, PreparationFailure
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.isolation import Ending, Turns
from evoflash.perf_model import Profile
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu

PROBLEM, GPU = parse_problem("b=1,h=1,s=64,d=64"), load_gpu("h200")
(WORKLOAD,) = PROBLEM.workloads
(KEY,) = PROBLEM.compile_keys(GPU.arch)


def genome_of(number: int) -> Genome:
    return Genome("flash_mma", 1, (("block_m", number),))


class Asked:
    """Tasks without cubins."""

    def task_of(self, genome, builds):
        return GpuTask(genome.id, GPU, (), (), ((WORKLOAD, ()),), seed=0)


class Gpu:
    """Knows each kernel's time; frauds pass every screen and no proof. Notes what it was asked."""

    def __init__(self, us, frauds=(), at_once=1):
        self.us, self.frauds, self.turns = us, set(frauds), Turns("gpu")
        self.at_once = at_once
        self.screened, self.proven = [], []

    def screen(self, task, *, now):
        return self.turns.submit(self._screen, task, now)

    def submit(self, task, *, now):
        return self.turns.submit(self._prove, task, now, first=True)

    def _screen(self, task, now):
        task, us = now(task), self.us[task.genome_id]
        self.screened.append(task.genome_id)
        outcome = GpuOutcome(task.genome_id, Status.CORRECT, Rung.TIMING, score_us=us)
        if task.rival_us is None or us <= task.rival_us:
            return outcome
        return replace(outcome, status=Status.SCREENED)

    def _prove(self, task, now):
        us = self.us[task.genome_id]
        self.proven.append(task.genome_id)
        if task.genome_id in self.frauds:
            return GpuOutcome(task.genome_id, Status.CORRECTNESS, Rung.CORRECTNESS, "wrong")
        timings = (Timing(str(WORKLOAD), "cold", us, us, us, 9),)
        return GpuOutcome(task.genome_id, Status.CORRECT, Rung.DONE, timings=timings, score_us=us)


class Search:
    """All steps of a search whose processes are made up; `code` is a kernel's machine code."""

    def __init__(
        self,
        us,
        *,
        frauds=(),
        at_once=1,
        code=str,
        preflight=lambda genome, prepared: None,
        is_worth_it=lambda us: True,
        profiles=(),
    ):
        self.profiles = profiles
        self.gpu = Gpu({genome_of(number).id: time for number, time in us.items()}, frauds, at_once)
        self.prepared = {number: Future() for number in us}
        self.standing, self.code = Incumbents(), code
        duplicates = Duplicates(PROBLEM, GPU, ())
        duplicates.key_of = lambda genome, builds: builds[0].text_sha
        self.climbs = Climbs(
            Steps(
                prepare=lambda genome: self.prepared[genome.as_dict()["block_m"]],
                preflight=preflight,
                asked=Asked(),
                worker=self.gpu,
                now=self.standing.now,
                is_worth_it=is_worth_it,
                standing=self.standing,
                duplicates=duplicates,
            ),
            at_once=len(us),
        )
        self.climbing = {number: self.climbs.start(genome_of(number)) for number in us}

    def compiled(self, *numbers, failure=None):
        for number in numbers:
            build = Build(genome_of(number).id, KEY, "", "", text_sha=self.code(number))
            self.prepared[number].set_result(Ending(Preparation((build,), failure, profiles=self.profiles)))

    def ends(self, *numbers):
        found = (self.climbing[number].result(LIMIT_S) for number in numbers)
        return [each.outcome and each.outcome.status for each in found]


def test_what_is_ready_goes_on_before_what_was_submitted_earlier_once_one_is_proven():
    search = Search({1: 10.0, 2: 10.0, 3: 10.0})
    search.compiled(1)
    assert search.ends(1) == [Status.CORRECT]
    search.compiled(3)
    assert search.ends(3) == [Status.CORRECT]
    assert not search.climbing[2].done()
    search.compiled(2)
    assert search.ends(2) == [Status.CORRECT]


def test_until_one_is_proven_they_come_in_the_order_of_their_submission():
    search = Search({1: 10.0, 2: 20.0, 3: 3000.0})
    search.compiled(3, 2)
    search.compiled(1, failure=PreparationFailure(Status.COMPILE, Rung.COMPILE, "refused"))
    assert search.ends(1, 2, 3) == [None, Status.CORRECT, Status.SCREENED]
    assert search.gpu.proven == [genome_of(2).id]


def test_with_two_gpus_the_second_proves_the_second_while_the_first_is_not_ready():
    search = Search({1: 10.0, 2: 20.0, 3: 15.0}, frauds=[genome_of(2).id], at_once=2)
    search.compiled(3, 2)
    assert search.ends(2) == [Status.CORRECTNESS]
    assert not search.climbing[3].done()  # it comes after the first one, and nothing is proven yet
    search.compiled(1)
    assert search.ends(1, 3) == [Status.CORRECT, Status.CORRECT]
    assert search.gpu.proven == [genome_of(number).id for number in (2, 1, 3)]


def test_only_what_could_still_be_among_the_elites_is_proven():
    us = {number: 10.0 + number for number in range(ELITES)} | {90: 17.5, 91: 16.5, 92: 9.0}
    search = Search(us)
    for number in us:
        search.compiled(number)
        search.ends(number)
    assert search.ends(90, 91, 92) == [Status.SCREENED, Status.CORRECT, Status.CORRECT]
    assert genome_of(90).id not in search.gpu.proven


def test_a_fraud_that_wins_the_race_is_rejected_and_nothing_is_compared_with_it():
    search = Search({1: 10.0, 2: 0.1, 3: 11.0}, frauds=[genome_of(2).id])
    for number in (1, 2, 3):
        search.compiled(number)
        search.ends(number)
    assert search.ends(1, 2, 3) == [Status.CORRECT, Status.CORRECTNESS, Status.CORRECT]
    assert search.standing.now(Asked().task_of(genome_of(1), ())).rival_us > 11.0


def test_a_kernel_that_is_on_its_way_is_not_sent_twice():
    search = Search({1: 10.0, 2: 10.0}, code=lambda _: "same")
    search.compiled(1, 2)
    assert search.ends(1, 2) == [Status.CORRECT] * 2
    assert len(search.gpu.screened) == len(search.gpu.proven) == 1
    builds = [search.climbing[number].result().prepared.builds[0].genome_id for number in (1, 2)]
    assert builds == [genome_of(1).id, genome_of(2).id]


def test_what_the_emulator_refuses_is_not_proven_whatever_the_gpu_says():
    complaint = PreparationFailure(Status.RUNTIME, Rung.PREFLIGHT, "a race")
    asked = Future()
    asked.set_result(Ending(Preparation(failure=complaint)))
    search = Search({1: 10.0}, preflight=lambda genome, prepared: asked)
    search.compiled(1)
    climbed = search.climbing[1].result(LIMIT_S)
    assert (climbed.outcome, climbed.prepared.failure) == (None, complaint)
    assert len(search.gpu.proven) == 1
    assert search.standing.now(Asked().task_of(genome_of(2), ())).rival_us == pytest.approx(25.0)


def test_what_the_gpu_has_proven_and_is_not_among_the_best_is_not_emulated_and_ends_screened():
    search = Search({1: 10.0}, preflight=pytest.fail, is_worth_it=lambda us: us < 10.0)
    search.compiled(1)
    (status,) = search.ends(1)
    outcome = search.climbing[1].result().outcome
    assert (status, outcome.score_us, outcome.reason) == (
        Status.SCREENED,
        10.0,
        "too slow to be emulated: 10.00 us",
    )
    assert len(search.gpu.proven) == 1
    now = search.standing.now(Asked().task_of(genome_of(2), ()))
    assert now.anchor is not None, "others are timed beside it"


def test_what_was_emulated_before_the_gpu_proved_it_is_correct_however_slow():
    profile = Profile(1, 1, 1, 1)
    search = Search({1: 10.0}, is_worth_it=lambda us: False, profiles=(profile,))
    search.compiled(1)
    assert search.ends(1) == [Status.CORRECT]


def test_others_keep_up_with_a_kernel_while_the_emulator_looks_at_it():
    looking = Future()
    search = Search({number: 10.0 for number in range(ELITES)}, preflight=lambda genome, prepared: looking)
    search.compiled(*range(ELITES))
    task, end_s = Asked().task_of(genome_of(99), ()), time.monotonic() + LIMIT_S
    while search.standing.now(task).rival_us != 10.0 and time.monotonic() < end_s:
        time.sleep(0.01)
    assert search.standing.now(task).rival_us == 10.0
    looking.set_result(
        Ending(Preparation(failure=PreparationFailure(Status.RUNTIME, Rung.PREFLIGHT, "a race")))
    )
    search.ends(*range(ELITES))
    assert search.standing.now(task).rival_us == pytest.approx(25.0), "none of them counts any more"


def test_while_few_are_proven_every_kernel_is_among_the_best():
    standing = Incumbents()
    for us in range(ELITES):
        assert standing.is_among_the_best(1000.0)
        standing.add(float(us), None)
    assert standing.is_among_the_best(ELITES - 1.5)
    assert not standing.is_among_the_best(ELITES - 1.0)


def test_an_ended_search_sends_nothing_more_to_the_gpu():
    search = Search({1: 10.0, 2: 10.0})
    search.climbs.end()
    search.compiled(1)
    search.prepared[2].cancel()
    for number in (1, 2):
        with pytest.raises(CancelledError):
            search.climbing[number].result(LIMIT_S)
    assert search.gpu.screened == []


def test_the_anchor_stays_until_another_is_far_faster():
    standing, asked = Incumbents(), Asked()
    tasks = [asked.task_of(genome_of(number), ()) for number in range(3)]

    def add(task, us):
        standing.add(us, anchor_of(task, (Timing(str(WORKLOAD), "cold", us, us, us, 9),)))
        return standing.now(task).anchor.task

    assert standing.now(tasks[0]) == tasks[0]
    assert add(tasks[0], 10.0) == tasks[0]
    assert add(tasks[1], 9.0) == tasks[0]
    assert add(tasks[2], 5.0) == tasks[2]
    standing.add(1.0, None)  # of an earlier process, its code is gone: a rival, but nothing to time beside
    assert standing.now(tasks[0]).anchor.task == tasks[2]
