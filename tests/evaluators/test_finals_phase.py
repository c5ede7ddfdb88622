"""The phase after the loop, on a real store: who is promoted, rejected, timed again; by a made-up GPU."""

import secrets
import threading
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from waiting import LIMIT_S

from evoflash.evaluation import Basis, Evaluation, Proposal, Run, Rung, RunKey, Status, Timing, Verdict
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.finals import FINALISTS, promote, prove_best, time_finalists
from evoflash.evaluators.measured import file_until
from evoflash.evaluators.pipeline import FinalistProof, ThisMachine
from evoflash.evaluators.prepare import PreparationFailure
from evoflash.gpu.process.finals import FinalReport, _wait_for_cores
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.isolation import Ending
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store

MISSION = parse_problem("mission")
(WORKLOAD,) = map(str, MISSION.workloads)
KEY = RunKey(str(MISSION), "h200", Basis.MEASURED, "evolution", 0)
LIBRARY = "sdpa_flash"
WRONG = PreparationFailure(Status.RUNTIME, Rung.PREFLIGHT, "wrong beyond 6000 keys")


def genome_of(number):
    return Genome("flash_mma", 1, (("block_m", number),))


def timing_of(us, protocol="final-cold"):
    return Timing(WORKLOAD, protocol, us, us, us, n=3)


def evaluation_of(number, us, **changes):
    given = {"status": Status.CORRECT, "rung": Rung.DONE, "timings": (timing_of(us, "cold"),), "score_us": us}
    return Evaluation(genome_of(number), str(MISSION), "h200", Basis.MEASURED, **given | changes)


class Gpu:
    """Times everything in 1 us; kernels in `hidden` fail on hidden shapes, those in `late` afterwards, those
    in `hung` do not end.
    """

    problem, gpu = MISSION, load_gpu("h200")

    def __init__(self, hidden=(), late=(), answers=True, emulated=(), hung=()):
        self.hung = {genome_of(number).id: "it did not end" for number in hung}
        self.wrong = {genome_of(number).id for number in hidden}
        self.late = {genome_of(number).id for number in late}
        self.unproven = [genome_of(number) for number in emulated]
        self.answers, self.seeds, self.timed, self.done = answers, [], [], []

    def begin_finals(self):
        return secrets.randbits(48)

    def proof_as_finalist(self, genome):
        self.done.append(("begins", genome))

        def failure():
            self.done.append(("asked", genome))
            return WRONG if genome in self.unproven else None

        return SimpleNamespace(failure=failure)

    def task_of(self, genome):
        return SimpleNamespace(genome_id=genome.id, genome=genome)

    def checked_on_hidden_shapes(self, task, genome, *, seed):
        assert task.genome_id == genome.id
        self.seeds.append(seed)
        self.done.append(("checked", genome))
        if task.genome_id in self.wrong:
            return GpuOutcome(task.genome_id, Status.CORRECTNESS, Rung.CORRECTNESS, "too far off")
        return GpuOutcome(task.genome_id, Status.CORRECT, Rung.DONE)

    def in_turns(self, finalists):
        self.timed = [task.genome_id for task in finalists]
        self.done.append(("timed", finalists[0].genome))
        hung = {name: why for name, why in self.hung.items() if name in self.timed}
        names = (*(name for name in self.timed if name not in hung), LIBRARY)
        verdicts = {
            name: (Verdict(WORKLOAD, name not in self.late, 0.0, 0.0, 0.0, 1.0, "differs"),) for name in names
        }
        timings = {name: (timing_of(1.0), timing_of(0.5, "final-hot")) for name in names}
        return FinalReport(timings, (), verdicts, {}, {LIBRARY: {}}, hung) if self.answers else None


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "a.db")) as opened:
        yield opened


def run_of(store, *evaluations) -> Run:
    run = store.begin(KEY, gpu_hash="", budget=9, argv=[], environment={})
    for evaluation in evaluations:
        store.add(run, evaluation, Proposal(evaluation.genome))
    return run


def outcome(store, run, number):
    return next(e for _, e in store.history(run) if e.genome == genome_of(number))


def test_the_fastest_are_promoted_and_neither_duplicates_nor_failures_nor_lower_bounds(store):
    bound = replace(timing_of(1.0, "cold"), censored=True)
    run = run_of(
        store,
        *(evaluation_of(number, 20.0 - 0.01 * number) for number in range(1, FINALISTS + 3)),
        evaluation_of(90, 2.0, status=Status.CORRECTNESS, rung=Rung.CORRECTNESS, score_us=None),
        evaluation_of(91, 2.0, duplicate_of=genome_of(1).id),
        evaluation_of(92, 1.0, timings=(bound,)),
    )
    gpu = Gpu()

    finalists = promote(gpu, store, run)

    fastest = range(FINALISTS + 2, 2, -1)
    assert [each.task.genome_id for each in finalists] == [genome_of(number).id for number in fastest]
    assert [each.genome.id for each in promote(gpu, store, run, count=1)] == [genome_of(FINALISTS + 2).id]


def test_who_is_far_behind_the_fastest_right_one_is_no_finalist(store):
    run = run_of(
        store, evaluation_of(1, 8.0), evaluation_of(2, 9.0), evaluation_of(3, 9.1), evaluation_of(4, 9.3)
    )

    right = [each.genome.id for each in promote(Gpu(), store, run)]
    after = [each.genome.id for each in promote(Gpu(hidden=[1]), store, run)]

    assert right == [genome_of(1).id]
    assert after == [genome_of(2).id, genome_of(3).id]


def test_where_all_of_the_fastest_are_wrong_the_next_ones_follow_and_what_is_rejected_is_said(store):
    numbers = range(1, FINALISTS + 4)
    run, said = run_of(store, *(evaluation_of(number, 8 + number / 100) for number in numbers)), []
    gpu = Gpu(hidden=range(1, FINALISTS + 2))

    right = [each.genome.id for each in promote(gpu, store, run, said=said.append)]

    assert right == [genome_of(FINALISTS + 2).id]
    assert len(set(gpu.seeds)) == 1
    assert len(said) == FINALISTS + 1
    assert said[0] == f"rejected {genome_of(1).id}: hidden shape, seed {gpu.seeds[0]}: too far off"


def test_one_seed_is_drawn_for_a_run_and_another_for_the_next(store):
    run = run_of(store, evaluation_of(1, 8.1), evaluation_of(2, 8.0))
    gpu = Gpu()

    promote(gpu, store, run)
    promote(gpu, store, run)

    first, again, *others = gpu.seeds
    assert first == again
    assert first not in others


def test_a_kernel_that_is_wrong_on_hidden_shapes_is_rejected_with_the_seed(store):
    run = run_of(store, evaluation_of(1, 8.1), evaluation_of(2, 8.0))
    gpu = Gpu(hidden=[2])

    time_finalists(gpu, store, run)

    wrong = outcome(store, run, 2)
    assert (wrong.status, wrong.rung, wrong.score_us) == (Status.CORRECTNESS, Rung.CORRECTNESS, None)
    assert wrong.reason == f"hidden shape, seed {gpu.seeds[0]}: too far off"
    assert gpu.timed == [genome_of(1).id]


def test_what_is_timed_again_has_its_new_score_beside_the_old_times_and_libraries_have_rows(store):
    run = run_of(store, evaluation_of(1, 8.1), evaluation_of(2, 8.0))
    said = []

    report = time_finalists(Gpu(late=[2]), store, run, said=said.append)

    right, late = outcome(store, run, 1), outcome(store, run, 2)
    assert (right.score_us, late.score_us) == (1.0, None)
    assert [timing.protocol for timing in right.timings] == ["cold", "final-cold", "final-hot"]
    assert (late.status, late.rung, late.reason) == (Status.CORRECTNESS, Rung.TIMING, "differs")
    assert [(row.name, row.score_us) for row in store.baselines(run)] == [(LIBRARY, 1.0)]
    assert report is not None
    assert said == ["timing the finalists and the baselines in turns, in a fresh process"]


def test_nothing_is_timed_when_nothing_is_promoted_and_old_times_stand_when_the_timing_fails(store):
    run = run_of(store, evaluation_of(1, 9.0))
    nobody, silent = Gpu(hidden=[1]), Gpu(answers=False)

    assert time_finalists(silent, store, run) is None
    assert outcome(store, run, 1).score_us == 9.0
    assert store.baselines(run) == []
    assert time_finalists(nobody, store, run) is None
    assert nobody.timed == []


def test_finalists_that_hang_while_they_are_timed_are_rejected_and_the_next_ones_follow(store):
    run = run_of(store, *(evaluation_of(number, us) for number, us in ((1, 8.0), (2, 8.1), (3, 9.0))))
    gpu = Gpu(hung=[1, 2])

    report = time_finalists(gpu, store, run)

    hung = outcome(store, run, 2)
    assert (hung.status, hung.rung, hung.reason) == (Status.TIMEOUT, Rung.TIMING, "it did not end")
    assert report is not None
    assert gpu.timed == [genome_of(3).id]
    assert outcome(store, run, 3).score_us == 1.0


def test_what_is_waited_for_is_told_where_it_takes_long(store, monkeypatch):
    from evoflash.evaluators import finals

    class Slow(Gpu):
        def checked_on_hidden_shapes(self, task, genome, *, seed):
            assert told.wait(LIMIT_S)
            return super().checked_on_hidden_shapes(task, genome, seed=seed)

    monkeypatch.setattr(finals, "_PATIENCE_S", 0.01)
    said, told = [], threading.Event()

    promote(
        Slow(), store, run_of(store, evaluation_of(1, 9.0)), said=lambda line: (said.append(line), told.set())
    )

    assert said == [f"waiting for {genome_of(1).id} on hidden shapes, for 0 s so far"]


def test_where_times_are_estimates_there_are_no_finals(store):
    run, said = run_of(store, evaluation_of(1, 9.0)), []
    with EmulatedEvaluator(MISSION, load_gpu("h200"), seed=0, cores=ThisMachine(1)) as evaluator:
        assert time_finalists(evaluator, store, run, said=said.append) is None

    assert said == []
    assert outcome(store, run, 1).score_us == 9.0


class Prover(EmulatedEvaluator):
    """Finds the kernels of `wrong` wrong as finalists."""

    def __init__(self, wrong):
        super().__init__(MISSION, load_gpu("h200"), seed=0, cores=ThisMachine(1))
        self.wrong, self.asked = [genome_of(number) for number in wrong], []

    def proof_as_finalist(self, genome):
        self.asked.append(genome)
        return SimpleNamespace(failure=lambda: WRONG if genome in self.wrong else None)


def test_without_a_gpu_the_best_is_proven_until_one_is_right(store):
    run = run_of(store, *(evaluation_of(number, float(number)) for number in range(1, 25)))
    with Prover(wrong=[1, 2, 9]) as evaluator:
        prove_best(evaluator, store, run)

    assert evaluator.asked == [genome_of(number) for number in (1, 2, 3)]
    assert outcome(store, run, 2).reason == "as a finalist: wrong beyond 6000 keys"
    assert outcome(store, run, 3).status is outcome(store, run, 9).status is Status.CORRECT


def test_with_a_gpu_the_emulator_proves_finalists_while_they_are_timed_and_the_next_ones_follow(store):
    far, near = [evaluation_of(n, 9.0 + 0.1 * n) for n in range(3, 25)], evaluation_of(2, 8.1)
    run = run_of(store, evaluation_of(1, 8.0), near, *far)
    gpu = Gpu(emulated=[1])

    report = time_finalists(gpu, store, run)

    first, second = map(genome_of, (1, 2))
    checks = [*(("begins", each) for each in (first, second)), ("checked", first), ("checked", second)]
    asked = [("asked", first), ("asked", second)]
    again = [("begins", second), ("checked", second), ("timed", second), ("asked", second)]
    assert gpu.done == [*checks, ("timed", first), *asked, *again]
    wrong, right = outcome(store, run, 1), outcome(store, run, 2)
    assert (wrong.status, wrong.rung, wrong.score_us) == (Status.RUNTIME, Rung.PREFLIGHT, None)
    assert wrong.reason == "as a finalist: wrong beyond 6000 keys"
    assert [timing.protocol for timing in wrong.timings] == ["cold"]
    assert right.score_us == 1.0
    assert report is not None
    assert first.id not in report.timings


def test_a_file_says_how_long_finalists_are_emulated_beside_their_timing():
    call = Future()
    with file_until([call]) as busy:
        assert Path(busy).exists()
        call.set_result(None)
        _wait_for_cores(busy)

        assert not Path(busy).exists()
        with file_until([call]) as none:
            assert none == ""


def test_a_part_of_a_proof_that_takes_too_long_is_left_out_and_said(caplog):
    late, wrong = Future(), Future()
    late.set_result(Ending(None, Status.TIMEOUT, "no answer within 180 s; its process was killed"))
    wrong.set_result(Ending(WRONG))

    assert FinalistProof((late,)).failure() is None
    assert FinalistProof((late, wrong)).failure() == WRONG
    assert "did not come to all runs of a finalist: no answer within 180 s" in caplog.text


def test_the_best_of_a_handful_is_no_finalist(store):
    run = run_of(store, evaluation_of(1, 9.0))
    gpu = Gpu()
    with Prover(wrong=[1]) as evaluator:
        prove_best(evaluator, store, run)
    promote(gpu, store, run)

    assert evaluator.asked == []
    assert gpu.done == [("checked", genome_of(1))]
