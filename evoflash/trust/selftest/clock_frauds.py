"""Contenders that cheat the clock, timed and checked as candidates are, in a GPU process.

A search has no such contenders: its kernels are launched by evoflash alone. These show that the harness would
notice if that ever went wrong.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evoflash.evaluation import Rung
from evoflash.gpu import launcher
from evoflash.gpu.process import cache
from evoflash.gpu.process.checks import judge_replay
from evoflash.gpu.process.rungs import GpuTask
from evoflash.gpu.timing.benchmark import Bench, KernelContender, measure, time_interleaved
from evoflash.gpu.timing.paired import beats_physics, compare
from evoflash.gpu.timing.protocols import StoppingRule
from evoflash.trust.selftest.corpus import ExpectedRejection

LIMIT_S = 60.0
_FEW = StoppingRule(min_samples=5, max_samples=5, rel_error=1.0, max_s=3.0)
_MANY = StoppingRule(min_samples=40, max_samples=60, rel_error=2e-3, max_s=4.0)
_EVERY = 13  # replays of which the lucky one skips one


@dataclass(frozen=True, slots=True)
class Ahead(KernelContender):
    """Does its work while the graph is made; a replay does nothing."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See Contender."""
        call = self.calls(bench)
        for at in order:
            call(at)
        launcher.wait(bench.stream, limit_s=LIMIT_S)
        return lambda: None


@dataclass(frozen=True, slots=True)
class Once(KernelContender):
    """Works in the first replay, and leaves its output for the others."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See Contender."""
        replays = iter([KernelContender.graph(self, bench, order)])
        return lambda: next(replays, _rest)()


@dataclass(frozen=True, slots=True)
class Aside(KernelContender):
    """Works on a stream that the clock does not look at."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See Contender."""
        aside = _Aside(bench, launcher.new_stream())
        return KernelContender.graph(self, aside, order)  # type: ignore[arg-type]


class _Aside:
    """A bench whose stream is another one."""

    def __init__(self, bench: Bench, stream: object) -> None:
        self.arenas, self.stream = bench.arenas, stream


@dataclass(frozen=True, slots=True)
class Lucky(KernelContender):
    """Does everything twice, but rests in every thirteenth replay."""

    def graph(self, bench: Bench, order: Sequence[int]) -> Callable[[], None]:
        """See Contender."""
        twice, replays = KernelContender.graph(self, bench, [*order, *order]), iter(range(1 << 30))
        return lambda: twice() if next(replays) % _EVERY else None


def _rest() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Cheat:
    """A contender and what must be said of it; `words`: "" for the control."""

    name: str
    does: str
    source: str
    contender: type[KernelContender]
    words: str

    @property
    def expected_rejection(self) -> ExpectedRejection:
        return ExpectedRejection({Rung.TIMING: self.words} if self.words else {})


_NOTICED = "beats physics|after timing"
CHEATS = (
    Cheat("an honest contender", "works in every replay", "control", KernelContender, ""),
    Cheat(
        "work moved outside the timed region",
        "computes while the graph is captured and does nothing when it is replayed",
        "evolution 3.1 no. 3",
        Ahead,
        _NOTICED,
    ),
    Cheat(
        "only the first replay works",
        "leaves its output for the replays that are timed",
        "evolution 3.1 no. 8, 11",
        Once,
        _NOTICED,
    ),
    Cheat(
        "work on another stream",
        "launches on a stream without the clock's events",
        "evolution 3.1 no. 1",
        Aside,
        _NOTICED,
    ),
    Cheat(
        "slower, with lucky samples",
        "does everything twice and rests in every thirteenth sample",
        "evolution 3.1 no. 47",
        Lucky,
        "called slower|called unclear",
    ),
)


def try_cheat(name: str, task: GpuTask) -> Mapping[Rung, str]:
    """What timing says to the cheat of that name, made of a task's honest kernel. Raises CuPy's errors."""
    cheat = next(cheat for cheat in CHEATS if cheat.name == name)
    workload, launches = task.timed[0]
    kernel, bench = task.kernel(workload, launches), cache.bench(workload, task.spec, task.seed)
    contender = cheat.contender(name, kernel)
    if isinstance(contender, Lucky):
        return {Rung.TIMING: _in_turns(contender, KernelContender("honest", kernel), bench)}
    return {Rung.TIMING: _time_cheat(contender, bench, task)}


def _time_cheat(contender: KernelContender, bench: Bench, task: GpuTask) -> str:
    timing, _ = measure(contender, bench, bench.protocols[0], rule=_FEW)
    if wonder := beats_physics(timing, bench.workload, task.spec):
        return wonder
    verdict = judge_replay(contender, bench, seed=task.seed, timed_us=timing.median_us)
    return "" if verdict.passed else f"after timing: {verdict.reason}"


def _in_turns(contender: Lucky, honest: KernelContender, bench: Bench) -> str:
    protocol, rng = bench.protocols[0], np.random.default_rng()
    samples, _ = time_interleaved([contender, honest], bench, protocol, rule=_MANY, rng=rng)
    found = compare(
        samples, contender.name, honest.name, workload=str(bench.workload), protocol=protocol.name
    )
    least = min(samples[contender.name]) / min(samples[honest.name])
    said = f"called {found.answer} ({found.ratio:.2f}), though its least sample is {least:.2f} of the other's"
    return "" if found.answer == "faster" else said
