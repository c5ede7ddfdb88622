"""The short look on a real GPU: what is slow ends there, what is fast does not, and no fraud wins by it."""

import os
from dataclasses import replace

import pytest
from on_gpu import planted

from evoflash.evaluation import Rung, Status, score
from evoflash.gpu.process.rungs import Anchor
from evoflash.isolation import IsolatedPool
from evoflash.operations.attention.workload import NAMED, AttentionWorkload
from evoflash.trust.selftest import run as on_gpu
from evoflash.trust.selftest.corpus import LIMIT_S, corpus

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns, pytest.mark.slow]

SMALL = AttentionWorkload(1, 2, 1, 64, 64, 64)
MISSION, LONG = NAMED["mission"], NAMED["s2k_d64"]
CAUSAL = AttentionWorkload(1, 8, 4, 256, 512, 64, "fp16", causal=True)
BIG = AttentionWorkload(1, planted.BIG_HEADS, 8, 1024, 1024, 64)
NEVER_TOO_SLOW_US = 1e9


def anchored(worker, task):
    """A kernel that passed every check, and its times as what others are timed beside."""
    outcome = worker.submit(task).result()
    assert outcome.status is Status.CORRECT, outcome.reason
    ranked = {t.workload: t.median_us for t in reversed(outcome.timings)}
    return Anchor(task, tuple(ranked[str(workload)] for workload, _ in task.timed))


@pytest.mark.parametrize("timed", [(MISSION,), (MISSION, CAUSAL), (LONG,)], ids=["short", "two", "long"])
def test_three_times_as_slow_is_screened_out_and_equally_fast_is_not(worker, spec, cubins, timed):
    def task_of(name, **launch):
        return planted.task_of(spec, cubins, checks=[SMALL], timed=timed, name=name, **launch)

    anchor = anchored(worker, task_of("once"))
    known_us = score(anchor.times_us)
    rival = {"anchor": anchor, "rival_us": 1.5 * known_us}
    same = worker.screen(replace(task_of("again"), **rival)).result()
    slow = worker.screen(replace(task_of("thrice", times=3), **rival)).result()
    print(f"\n{known_us:.2f} us; again {same.score_us:.2f} us; three times: {slow.reason}")
    assert (same.status, slow.status) == (Status.CORRECT, Status.SCREENED), (same.reason, slow.reason)
    assert (same.rung, slow.rung) == (Rung.TIMING, Rung.TIMING)
    assert {timing.protocol for timing in slow.timings} == {"screen"}
    assert len(slow.timings) == len(timed)
    proof = worker.submit(replace(task_of("again"), **rival)).result()
    assert (proof.status, proof.rung) == (Status.CORRECT, Rung.DONE), proof.reason


def test_a_kernel_that_does_not_end_is_stopped_by_its_allowance(worker, spec, cubins):
    anchor = anchored(worker, planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION]))
    task = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], fault="never ends")
    outcome = worker.screen(replace(task, anchor=anchor, rival_us=10.0)).result()
    assert (outcome.status, outcome.process_lost) == (Status.TIMEOUT, True)
    assert "lost_s" in outcome.environment


@pytest.mark.parametrize("fault", [name for name in planted.FAULTS if name not in ("none", "never ends")])
def test_a_planted_mistake_that_wins_the_race_is_rejected(worker, spec, cubins, fault):
    timed = [BIG] if "at size" in fault else [MISSION]
    honest = planted.task_of(spec, cubins, checks=[SMALL], timed=timed)
    bad = planted.task_of(spec, cubins, checks=[SMALL], timed=timed, fault=fault)
    anchor = Anchor(honest, (1e3,))  # its time does not matter here: nothing is too slow
    outcome = reached(worker, replace(bad, anchor=anchor, rival_us=NEVER_TOO_SLOW_US))
    print(f"\n{outcome.status} at {outcome.rung}: {outcome.reason}")
    assert outcome.status not in (Status.CORRECT, Status.SCREENED)


def reached(worker, task):
    """As a search does: the screen, then, for what is fast enough, every rung."""
    outcome = worker.screen(task).result()
    return worker.submit(task).result() if outcome.status is Status.CORRECT else outcome


@pytest.fixture(scope="module")
def tasks(spec):
    """The corpus compiled, by name."""
    tried = [fraud for fraud in corpus() if not fraud.measured.skip]
    with IsolatedPool(len(os.sched_getaffinity(0))) as pool:
        built = [pool.submit(on_gpu.task_of, fraud, spec, 1, timeout_s=LIMIT_S) for fraud in tried]
        return {fraud.name: (fraud, each.result().value) for fraud, each in zip(tried, built, strict=True)}


@pytest.mark.full  # each fraud meets the same rungs in test_selftest.py; this is for changes of the screen
def test_no_fraud_of_the_corpus_that_wins_the_race_passes(worker, tasks):
    """Each is let through by a rival that is slower than all, beside a proven kernel on its problem."""
    passed = []
    honest = {task.timed[0][0]: task for fraud, task in tasks.values() if not fraud.measured.rungs}
    anchors = {workload: anchored(worker, task) for workload, task in honest.items()}
    tried = [(f, t) for f, t in tasks.values() if f.measured.rungs and t.timed[0][0] in anchors]
    for fraud, task in tried:
        winner = replace(task, anchor=anchors[task.timed[0][0]], rival_us=NEVER_TOO_SLOW_US)
        outcome = reached(worker, winner)
        if outcome.status in (Status.CORRECT, Status.SCREENED):
            print(f"\n{fraud.name}: {outcome.status}, {outcome.timings}")
            passed.append(fraud.name)
    print(f"\n{len(tried)} frauds, {len(anchors)} problems")
    assert not passed
    assert len(tried) > 20
