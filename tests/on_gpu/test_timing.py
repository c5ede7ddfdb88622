"""The clock on a real GPU: what is timed is right, equal kernels come out equal, unequal ones do not."""

import pytest
from on_gpu import planted

from evoflash.evaluation import Rung, Status
from evoflash.gpu.launcher import LoadedKernel, present_gpu
from evoflash.gpu.process import cache
from evoflash.gpu.process.finals import FinalTask
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.timing.benchmark import Bench, KernelContender, measure
from evoflash.gpu.timing.protocols import SHORT
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import NAMED, AttentionWorkload
from evoflash.problem import parse_problem

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns, pytest.mark.slow]

SMALL = AttentionWorkload(1, 2, 1, 64, 64, 64)
MISSION = NAMED["mission"]
CAUSAL = AttentionWorkload(1, 8, 4, 256, 512, 64, "fp16", causal=True)


def show(timings):
    for timing in timings:
        print(
            f"\n  {timing.workload} {timing.protocol}: {timing.median_us:.2f} us [{timing.p10_us:.2f}, "
            f"{timing.p90_us:.2f}] n={timing.n} {timing.sm_clock_mhz} MHz {timing.throttle}",
            end="",
        )


def test_the_driver_agrees_with_the_spec(spec):
    print("\n", present_gpu(), "\n", "\n ".join(present_gpu().differences(spec)) or "no differences")
    assert present_gpu().runs(spec)


def test_a_correct_kernel_is_timed_cold_and_hot(worker, spec, cubins):
    task = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION, CAUSAL])
    outcome = worker.submit(task).result()
    show(outcome.timings)
    assert (outcome.status, outcome.rung) == (Status.CORRECT, Rung.DONE), outcome.reason
    assert [timing.protocol for timing in outcome.timings] == ["cold", "hot"] * 2
    assert outcome.score_us == pytest.approx(
        (outcome.timings[0].median_us * outcome.timings[2].median_us) ** 0.5
    )
    # One on the check shape, two at size, two of what was timed.
    assert len(outcome.verdicts) == 5
    assert all(verdict.passed for verdict in outcome.verdicts)


def test_a_kernel_that_is_wrong_only_while_timed_is_found_out(worker, spec, cubins):
    task = planted.task_of(
        spec, cubins, checks=[SMALL], timed=[MISSION], fault="is right only while it is checked"
    )
    outcome = worker.submit(task).result()
    print("\n", outcome.reason)
    assert outcome.status is Status.CORRECTNESS
    assert "after timing" in outcome.reason


def test_a_kernel_is_as_fast_as_it_was_timed_where_unseen_lengths_are_longer(spec):
    problem = parse_problem("b=16,h=16,hkv=4,sq=1,skv=65536,d=128,page=16,lengths=one_long")
    (workload,), (key,) = problem.workloads, problem.compile_keys(spec.arch)
    unseen = cache.inputs(workload, "normal-after", 5)
    lengths = getattr(unseen, "inputs", unseen).tensors["LENGTHS"]
    assert lengths.sum() > 3 * sum(workload.keys)
    family = load_family("decode_mma")
    genome = family.seeds_for(problem, family.space((key,), spec), spec)[0]
    build = compile_candidate(render(genome, key, spec))
    bench = Bench(workload, spec=spec, seed=5)
    assert len(bench.arenas) == 1, "what is judged has the unseen inputs alone"
    contender = KernelContender(
        "seed", LoadedKernel(build.cubin_path, family.launches(genome, workload, spec))
    )

    timing, _ = measure(contender, bench, bench.protocols[0], rule=SHORT)

    show([timing])
    verdict = judge_replay(contender, bench, seed=5, timed_us=timing.median_us)
    assert verdict.passed, verdict.reason


def test_a_long_workload_is_ranked_by_boost_windows_alone(worker, spec, cubins):
    long = NAMED["s2k_d64"]
    outcome = worker.submit(planted.task_of(spec, cubins, checks=[SMALL], timed=[long])).result()
    show(outcome.timings)
    assert outcome.status is Status.CORRECT, outcome.reason
    assert [timing.protocol for timing in outcome.timings] == ["cold-boost"]


def test_finalists_and_baselines_are_timed_in_turns_and_compared(worker, spec, cubins):
    once = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], name="once")
    again = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], name="again")
    twice = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], name="twice", times=2)
    ending = worker.finalists(FinalTask((once, again, twice), (MISSION,), spec, seed=3)).result()
    report = ending.value
    assert report is not None, ending.reason
    for name, timings in report.timings.items():
        print(f"\n{name} {report.environment.get(name, '')}", end="")
        show(timings)
    print(f"\nabsent: {report.absent}")
    pairs = {(c.first, c.second): c for c in report.comparisons if c.protocol == "final-cold"}
    for comparison in pairs.values():
        print(f"{comparison} {comparison.answer}")
    assert all(verdict.passed for found in report.verdicts.values() for verdict in found)
    assert pairs["once", "twice"].answer == "faster"


def test_every_baseline_that_runs_is_right_on_every_workload(worker, spec):
    """Bottom-right, grouped, decode: in one process, because each start of PyTorch takes seconds."""
    pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")
    workloads = (
        CAUSAL,
        AttentionWorkload(2, 8, 2, 384, 384, 128, "bf16", causal=True),
        AttentionWorkload(2, 32, 8, 1, 8192, 128),
    )
    ending = worker.finalists(FinalTask((), workloads, spec, seed=4)).result()
    assert ending.value is not None, ending.reason
    print(f"\nabsent: {ending.value.absent}")
    for name, verdicts in ending.value.verdicts.items():
        show(ending.value.timings[name])
        assert all(verdict.passed for verdict in verdicts), f"{name}: {verdicts}"
    judged = {verdict.workload for verdicts in ending.value.verdicts.values() for verdict in verdicts}
    assert judged == {str(workload) for workload in workloads}


def test_finals_measure_the_energy_of_a_call_where_it_is_asked_for(worker, spec, cubins):
    once = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], name="once")
    again = planted.task_of(spec, cubins, checks=[SMALL], timed=[MISSION], name="again")
    task = FinalTask((once, again), (MISSION,), spec, seed=5, baselines=(), energy=True)
    ending = worker.finalists(task).result()
    assert ending.value is not None, ending.reason
    for name, (ranked, *others) in ending.value.timings.items():
        assert ranked.energy_mj is not None, "NVML has no energy counter for this GPU"
        watts = 1e3 * ranked.energy_mj / ranked.median_us
        print(f"\n{name}: {ranked.energy_mj:.4f} mJ a call, {watts:.0f} W over its time")
        assert 20 < watts < 2000  # between a board at rest and more than any takes
        assert {timing.energy_mj for timing in others} == {None}
