"""`evoflash compare` on a real GPU: copies come out equal, slower kernels slower, wrong ones are named."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from on_gpu import planted
from places import ROOT

from evoflash.app.compare import ComparedKernel, ComparisonRun, compare_kernels
from evoflash.gpu import launcher
from evoflash.gpu.timing.benchmark import Bench, KernelContender
from evoflash.gpu.timing.paired import run_sequential_test
from evoflash.gpu.timing.protocols import CALL
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_kernel
from evoflash.operations.attention.workload import NAMED, AttentionWorkload
from evoflash.problem import Problem, parse_problem

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns, pytest.mark.slow]

SMALL, MISSION, LONG = AttentionWorkload(1, 2, 1, 64, 64, 64), NAMED["mission"], NAMED["s2k_d64"]


@pytest.fixture(scope="module")
def pool():
    with IsolatedPool(1, initializer=launcher.warm_up) as made:
        yield made


def contender(spec, cubins, name, *, timed=MISSION, **how):
    """A planted kernel whose cubin is a file of its own: CuPy then loads it apart from its twin."""
    task = planted.task_of(spec, cubins, checks=[SMALL], timed=[timed], name=name, **how)
    own = [(key, shutil.copyfile(path, f"{path}.{name}")) for key, path in task.cubins]
    return ComparedKernel(name, replace(task, cubins=tuple(own)))


def held(pool, spec, *contenders, workload=MISSION):
    ending = pool.submit(
        compare_kernels, ComparisonRun(contenders, Problem((workload,)), spec, 3), timeout_s=300
    ).result()
    assert ending.value is not None, ending.reason
    for result in ending.value.results:
        print(f"\n  {result.comparison} {result.comparison.answer} {result.timings}", end="")
    return ending.value


def answers(outcome):
    assert not outcome.failure, outcome.failure
    return {r.comparison.protocol: r.comparison.answer for r in outcome.results}


def test_copies_are_not_told_apart_in_any_way_of_timing(pool, spec, cubins):
    outcome = held(pool, spec, *(contender(spec, cubins, name) for name in ("one", "other")))
    assert answers(outcome) == {"pairs-cold": "unclear", "pairs-hot": "unclear", "pairs-call": "unclear"}


def test_twice_the_work_takes_twice_the_time_and_its_mirror_half(pool, spec, cubins):
    once, twice = contender(spec, cubins, "once"), contender(spec, cubins, "twice", times=2)
    assert set(answers(held(pool, spec, twice, once)).values()) == {"slower"}
    outcome = held(pool, spec, once, twice)
    assert set(answers(outcome).values()) == {"faster"}


def test_a_long_workload_is_compared_in_both_power_states(pool, spec, cubins):
    pair = [contender(spec, cubins, name, timed=LONG) for name in ("one", "other")]
    outcome = held(pool, spec, *pair, workload=LONG)
    assert answers(outcome) == {"pairs-cold-boost": "unclear", "pairs-cold-sustained": "unclear"}


def test_a_wrong_kernel_is_not_timed_but_named(pool, spec, cubins):
    right = contender(spec, cubins, "right")
    wrong = contender(spec, cubins, "wrong", fault="drops the last key")
    outcome = held(pool, spec, right, wrong)
    assert outcome.failure.startswith("wrong fails at correctness")
    assert not outcome.results


def test_a_kernel_that_is_wrong_only_while_timed_is_found_out(pool, spec, cubins):
    liar = contender(spec, cubins, "liar", fault="is right only while it is checked")
    outcome = held(pool, spec, liar, contender(spec, cubins, "honest"))
    assert "liar is wrong as it was timed" in outcome.failure


def test_a_baseline_is_compared_by_the_same_clock(pool, spec, cubins):
    pytest.importorskip("torch", reason="needs torch: pip install '.[baselines]'")
    outcome = held(pool, spec, ComparedKernel("sdpa_flash"), contender(spec, cubins, "plain"))
    assert answers(outcome)["pairs-cold"] == "faster"


def test_a_comparison_has_an_interval_in_every_way_of_timing(spec, cubins):
    bench = Bench(MISSION, spec=spec, seed=1)
    one, other = (on_device(spec, cubins, name) for name in ("one", "other"))
    for protocol in (*bench.protocols, CALL):
        found = run_sequential_test(one, other, bench, protocol, rng=np.random.default_rng(0))
        print(f"\n  {found.comparison} {found.took_s:.2f} s", end="")
        assert found.comparison.low < found.comparison.ratio < found.comparison.high


def on_device(spec, cubins, name):
    task = contender(spec, cubins, name).task
    return KernelContender(name, task.kernel(MISSION, dict(task.timed)[MISSION]))


def evoflash(*words):
    done = subprocess.run(
        [sys.executable, "-m", "evoflash", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_compares_two_exported_files(spec, tmp_path):
    problem = parse_problem("mission")
    space = load_family("flash_mma").space(problem.compile_keys(spec.arch), spec)
    seeds = load_family("flash_mma").seeds_for(problem, space, spec)[:2]
    paths = [tmp_path / f"{genome.id}.cu" for genome in seeds]
    for path, genome in zip(paths, seeds, strict=True):
        path.write_text(export_kernel(genome, problem, spec))
    found = evoflash("compare", *map(str, paths), "--json")
    print(json.dumps(found, indent=1))
    assert [row["protocol"] for row in found["results"]] == ["pairs-cold", "pairs-hot", "pairs-call"]
    assert all(row["low"] < row["ratio"] < row["high"] for row in found["results"])


def test_doctor_measures_the_noise_and_comparisons_take_it(monkeypatch, tmp_path):
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path))
    floors = evoflash("doctor", "--noise", "--json")
    print(floors)
    assert {floor["protocol"] for floor in floors} >= {"cold", "hot"}
    assert all(floor["relative"] > 0 for floor in floors)
    row = next(row for row in evoflash("doctor", "--json") if row["subject"] == "noise floor")
    assert row["state"] == "ok"
