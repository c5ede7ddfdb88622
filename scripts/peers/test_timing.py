"""What run.py does in its GPU process, with stand-ins for the GPU: which kernel is timed, what is kept."""

import json
import types
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from evoflash.evaluation import Rung, Status, Timing, Verdict
from evoflash.gpu.baselines import BaselineAbsentError, LibraryContender
from evoflash.gpu.launcher import KernelHungError
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import KernelContender
from evoflash.gpu.timing.protocols import Pace, protocols_of
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from scripts.peers import ratios as peers_ratios
from scripts.peers import timing as script
from scripts.peers.rows import Ours, workload_of

H200 = load_gpu("h200")
TIMES_US = {"slow": 700.0, "fast": 600.0, "sdpa_cudnn": 650.0, "triton": 800.0, "read_only": 120.0}
ROUNDS = {"steady": 6, "boost": 5, "sustained": 7}


class Library(LibraryContender):
    """A library that was never called."""

    def __init__(self, name):
        self.name = name

    @property
    def environment(self):
        return {"torch": "2.11.0"}


class Stage:
    """The GPU's part: what is checked, how long everything takes, what comes out wrong."""

    def __init__(self, monkeypatch):
        self.rejected, self.wrong, self.protocols, self.lost = {}, {}, [], ()
        monkeypatch.setattr(script.cache, "bench", self.bench)
        monkeypatch.setattr(script.launcher, "cuda_errors", lambda: (ZeroDivisionError,))
        for name in ("check", "baseline", "measure", "interleaved", "of_timed"):
            monkeypatch.setattr(script, name, getattr(self, name))
        monkeypatch.setattr(script, "_contender", lambda task: KernelContender(task.genome_id, None))
        monkeypatch.setattr(script, "time_synced", lambda each, bench, protocol: TIMES_US[each.name])
        read_only = types.SimpleNamespace(name="read_only")
        monkeypatch.setattr(script.read_only, "fastest", lambda *_, **__: read_only)

    def bench(self, workload, spec, seed):
        return types.SimpleNamespace(workload=workload, protocols=protocols_of(workload, spec))

    def check(self, task):
        if reason := self.rejected.get(task.genome_id):
            return GpuOutcome(
                task.genome_id,
                Status.CORRECTNESS,
                Rung.SMOKE,
                reason,
                process_lost=task.genome_id in self.lost,
            )
        return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)

    def baseline(self, name, bench):
        self.protocols.append(bench.protocols)
        if name == "fa4":
            raise BaselineAbsentError("flash_attn is not installed")
        if name == "hangs":
            raise KernelHungError("did not end within 30 s")
        return Library(name)

    def measure(self, contender, bench, protocol, *, rule):
        assert protocol.pace is Pace.STEADY
        return self.timing(contender.name, bench, protocol.name, 3), []

    def timing(self, name, bench, protocol, n):
        us = TIMES_US[name]
        return Timing(str(bench.workload), protocol, us, us, us, n, sm_clock_mhz=1980)

    def interleaved(self, contenders, bench, protocol, *, rule, rng):
        assert rule.min_samples == rule.max_samples == ROUNDS[protocol.pace]
        wobble = 1 + 1e-3 * np.arange(rule.max_samples)
        samples = {each.name: list(TIMES_US[each.name] * wobble) for each in contenders}
        name, n = f"final-{protocol.name}", rule.max_samples
        return samples, {each.name: self.timing(each.name, bench, name, n) for each in contenders}

    def of_timed(self, contender, bench, *, seed, timed_us, is_deterministic):
        assert is_deterministic == isinstance(contender, KernelContender)
        reason = self.wrong.get(contender.name, "")
        return Verdict(str(bench.workload), not reason, 0.0, 0.0, 0.0, 0.0, reason)


@pytest.fixture
def stage(monkeypatch):
    return Stage(monkeypatch)


def timed(row="s2k_d64", *, names=("slow", "fast"), libraries=("sdpa_cudnn", "triton", "fa4")):
    tasks = tuple(GpuTask(name, H200, (), (), ((workload_of(row), ()),), 1) for name in names)
    return script.timed(script.Job(row, tasks), script.Setup(H200, 1, libraries, ROUNDS, ""))


def test_the_fastest_of_ours_is_timed_with_every_library_that_is_there(stage):
    found = timed()
    assert found.failure == ""
    assert found.genome_id == "fast"
    assert found.looks_us == {"slow": 700.0, "fast": 600.0}
    assert set(found.timings) == {"fast", "sdpa_cudnn", "triton"}
    assert found.absent == {"fa4": "flash_attn is not installed"}
    protocols = [timing.protocol for timing in found.timings["fast"]]
    assert protocols == ["final-cold-boost", "final-cold-sustained"]
    ratios = {(c.first, c.protocol): (c.second, c.ratio) for c in found.comparisons}
    assert ratios["triton", "final-cold-boost"] == ("fast", pytest.approx(800 / 600))
    assert len(ratios) == 4


def test_settings_are_chosen_without_idling_and_rows_are_timed_in_their_own_ways(stage):
    bench = stage.bench(workload_of("s2k_d64"), H200, 1)
    with script._steady(bench):
        assert bench.protocols == (script.STEADY,)
    assert bench.protocols[0].pace is Pace.BOOST
    timed()
    assert all(protocols == (script.STEADY,) for protocols in stage.protocols)


def test_a_short_row_is_timed_cold_only(stage):
    assert [timing.protocol for timing in timed("mission").timings["fast"]] == ["final-cold"]


def test_a_kernel_that_is_not_right_is_not_timed_and_the_note_says_why(stage):
    stage.rejected = {"fast": "relative L2 of 1"}
    found = timed()
    assert found.genome_id == "slow"
    assert found.notes == ("fast: correctness at smoke, relative L2 of 1",)
    stage.rejected["slow"] = "unwritten"
    found = timed()
    assert (found.process_lost, found.timings) == (False, {})
    assert found.failure.startswith("slow: correctness at smoke, unwritten; fast: ")


def test_a_kernel_that_spoils_the_process_ends_the_row(stage):
    stage.rejected, stage.lost = {"slow": "wrote outside O"}, ("slow",)
    found = timed()
    assert found.process_lost
    assert "wrote outside O" in found.failure


def test_what_is_wrong_as_it_was_timed_is_said_of_a_rival_and_fails_ours(stage):
    stage.wrong = {"triton": "relative L2 of 2"}
    assert (timed().wrong, timed().failure) == ({"triton": "relative L2 of 2"}, "")
    stage.wrong = {"fast": "relative L2 of 3"}
    assert timed().failure == "relative L2 of 3"


def test_a_time_that_physics_forbids_fails_ours(stage, monkeypatch):
    monkeypatch.setitem(TIMES_US, "fast", 1.0)
    assert "beats physics" in timed().failure


def test_a_hang_and_an_error_of_cuda_lose_the_process(stage, monkeypatch):
    found = timed(libraries=("hangs",))
    assert (found.failure, found.process_lost) == ("a kernel did not end within 30 s", True)
    monkeypatch.setattr(script, "measure", lambda *_, **__: 1 // 0)
    assert timed().process_lost


def test_a_decoding_step_is_timed_beside_a_kernel_that_only_reads(stage, monkeypatch):
    monkeypatch.setitem(TIMES_US, "fast", 130.0)
    found = timed("decode8k")
    assert found.timings["read_only"][0].median_us == 120.0
    assert found.wrong == {}
    assert "read_only" not in found.environment


def test_the_page_reads_what_was_timed(stage):
    found = json.loads(json.dumps(asdict(timed())))
    ours = {"id": "fast", "family": "flash_wgmma", "version": 3, "values": {}, "source": "x"}
    line = peers_ratios.line_of({**found, "row": "s2k_d64", "ours": ours}, {})
    assert [state.protocol for state in line.states] == ["final-cold-boost", "final-cold-sustained"]
    assert [(peer.peer, peer.us) for peer in line.states[0].peers] == [("cuDNN", 650.0), ("Triton", 800.0)]
    assert line.judged.low == pytest.approx(line.judged.ratio) == line.judged.high  # all rounds agree


def test_ours_are_compiled_with_the_checks_of_a_finalist_or_it_is_said_why_not():
    row = "mission"
    space = load_family("flash_mma").space(parse_problem(row).compile_keys(H200.arch), H200)
    good = space.genome({"block_n": 64, "layout": "xor128", "warps": 4})
    setup = script.Setup(H200, 5, (), ROUNDS, "")
    values = tuple(sorted({**good.as_dict(), "block_n": 1000}.items()))
    wide = Ours(replace(good, values=values), None, "a seed")
    job = script.compiled(row, (Ours(good, 5.0, "x"), wide), setup)
    (task,) = job.tasks
    assert task.genome_id == good.id
    assert Path(task.cubins[0][1]).exists()
    assert task.timed[0][0] == workload_of(row)
    longest = max(workload.seq_kv for workload, _ in task.checks)
    assert longest > 1500  # the hidden shapes' longest, beyond the 1157 that every candidate meets
    assert len(job.failures) == 1
    assert job.failures[0].startswith(f"{wide.genome.id}: constraints")
    assert script.compiled(row, (), setup).failures == ("no kernel of ours is known",)
