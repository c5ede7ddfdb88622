"""Kernels of paged attention beside one another on one GPU: pages, layouts, rows of queries, batches, graphs.

    python -m scripts.peers.paged_ratios -o paged-ratios.json
    python -m scripts.peers.paged_ratios --db runs.db --kernel page_16=3f2a --kernel dense=77c0 -o FILE

Each kernel is found by an `evoflash search` of its own problem, from nothing, or named by its id in --db and
then checked as a finalist of a search is. All are timed in turns in this process, cold, in an order drawn for
each round, and what was timed is judged. The file is written anew after each part, also after one that fails.
A search needs no library: --search-pythonpath names where modules are without them.
"""

import argparse
import copy
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.app.kernel_lookup import known_genome
from evoflash.errors import EvoflashError
from evoflash.evaluation import Status
from evoflash.evaluators.prepare import prepare
from evoflash.gpu.arena import Arena, MemoryFaultError, launch
from evoflash.gpu.baselines import BaselineAbsentError, BaselineFailedError, baseline
from evoflash.gpu.comparisons import ComparisonBatch, Side, read_results
from evoflash.gpu.driver import PackedArguments, pack_arguments
from evoflash.gpu.launcher import (
    GpuBusyError,
    KernelHungError,
    LoadedKernel,
    cuda_errors,
    new_stream,
    present_spec,
    settle,
    wait,
)
from evoflash.gpu.memory import on_device, scratch_of
from evoflash.gpu.process.judged_replays import judge_replay
from evoflash.gpu.process.right_answers import compute_right
from evoflash.gpu.process.rungs import check_task, task_of
from evoflash.gpu.timing.benchmark import Bench, Contender, KernelContender, capture, sample
from evoflash.gpu.timing.paired import compare
from evoflash.gpu.timing.protocols import SCREENED
from evoflash.kernels.family import load_family
from evoflash.operation import operation_of
from evoflash.operations.expectations import Rows
from evoflash.operations.paged.inputs import PagedInputs, draw
from evoflash.operations.paged.relations import ignores_company, moves_sequences
from evoflash.operations.paged.workload import PagedWorkload
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from evoflash.validation.validator import judge_errors
from scripts.peers import holdout, run
from scripts.peers.paged_calls import LAYOUTS, alone, laid_out, write_limited_family
from scripts.records import write_record

ROW, ROWS_OF_QUERIES, LIMITED = "serving_llama8b_b8_4k", "serving_llama8b_sq4_b8_8k", "l4"
LIMITED_ROWS = "serving_llama8b_b1_8k serving_llama8b_b8_4k"
FAMILY = "decode_mma"  # the one of all GPUs
_LIMIT_S = 20.0
_FAILURES = (EvoflashError, MemoryFaultError, KernelHungError, GpuBusyError, BaselineFailedError)
_GRAPH_INPUTS = ("normal", "some_empty", "edges", "all_empty", "needles")
# The figure's name; its first kernel's time over its second's; the least or the most that it should be.
TARGETS = {
    "dense over page 16": ("dense", "page_16", ">=", 0.97),
    "dense over page 1": ("dense", "page_1", ">=", 0.90),
    "invariant over free": ("invariant", "page_16", "<=", 1.10),
    "four rows over one": ("four_rows", "one_row", "<=", 1.15),
    "FlashAttention-3 over four rows": ("fa3_paged", "four_rows", ">=", 1.05),
}
_LAYOUTS_APART, _OVER_FLASHINFER = 1.02, 1.15


def problems(row: str, limited_rows: Sequence[str]) -> dict[str, str]:
    """The kernels that are wanted by name, and the problem that each is searched on."""
    workload = parse_problem(row).workloads[0]
    assert isinstance(workload, PagedWorkload), "a row of paged attention"
    queries = parse_problem(ROWS_OF_QUERIES).workloads[0]
    assert isinstance(queries, PagedWorkload), "a row of paged attention"
    found = {
        "page_16": replace(workload, page=16),
        "dense": replace(workload, page=workload.seq_kv),
        "page_1": replace(workload, page=1),
        "invariant": replace(workload, page=16, invariant=True),
        "one_row": replace(queries, seq_q=1),
        "four_rows": queries,
    }
    limited = {f"{LIMITED} {each}": each for each in limited_rows}
    return {**{name: str(parse_problem(str(each))) for name, each in found.items()}, **limited}


def judged(name: str, ratio: float, low: float, high: float, sign: str, target: float) -> dict[str, Any]:
    """A figure, and whether it is what it should be."""
    is_met = bool(ratio >= target if sign == ">=" else ratio <= target)
    return {
        "figure": name,
        "ratio": round(ratio, 4),
        "interval": [round(low, 4), round(high, 4)],
        "target": f"{sign} {target:g}",
        "is_met": is_met,
    }


# ---- a kernel


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """A genome compiled for a problem, to be loaded for any workload of its compile key."""

    name: str
    genome: Genome
    problem: Problem
    spec: GpuSpec
    cubin_path: str

    @property
    def workload(self) -> PagedWorkload:
        (workload,) = self.problem.workloads
        assert isinstance(workload, PagedWorkload), "a problem of paged attention"
        return workload

    def loaded(self, workload: PagedWorkload) -> LoadedKernel:
        """Ready for that workload."""
        return LoadedKernel(
            self.cubin_path, load_family(self.genome.family).launches(self.genome, workload, self.spec)
        )


def prepared(
    name: str, genome: Genome, problem: Problem, spec: GpuSpec, seed: int, *, is_checked: bool
) -> PreparedKernel:
    """Compiled, and checked as every finalist is if that was not done. EvoflashError where it is wrong."""
    made, family = prepare(genome, problem, spec, False, seed), load_family(genome.family)
    if made.failure:
        raise EvoflashError(f"{name}: {made.failure.status}, {made.failure.reason}")
    kernel = PreparedKernel(name, genome, problem, spec, made.builds[0].cubin_path)
    if is_checked:
        return kernel
    operation, keys = operation_of(problem.workloads[0]), problem.compile_keys(spec.arch)
    task = task_of(
        genome.id,
        spec,
        made.builds,
        lambda each: family.launches(genome, each, spec),
        checks=(*operation.check_workloads(keys), *operation.hidden_workloads(keys, seed=seed)),
        timed=problem.workloads,
        seed=seed,
        is_deterministic=family.is_deterministic,
    )
    outcome = check_task(task)
    if outcome.status is not Status.CORRECT:
        raise EvoflashError(f"{name}: {outcome.status} at {outcome.rung}, {outcome.reason}")
    return kernel


# ---- timing in turns


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A contender on the inputs of its own workload."""

    name: str
    contender: Contender
    bench: Any  # a Bench, or one like it


def in_turns(sides: Sequence[Timed], *, rounds: int, seed: int) -> dict[str, list[float]]:
    """Samples in us of each, taken in turns in an order drawn for each round."""
    rng = np.random.default_rng(seed)
    replays = {each.name: capture(each.contender, each.bench, SCREENED) for each in sides}
    found: dict[str, list[float]] = {each.name: [] for each in sides}
    for _ in range(rounds):
        for at in rng.permutation(len(sides)):
            side = sides[at]
            replay, launches = replays[side.name]
            found[side.name].append(sample(replay, side.bench, SCREENED, launches=launches))
    return found


def ratios(samples: Mapping[str, Sequence[float]]) -> Iterator[dict[str, Any]]:
    """Those of TARGETS whose kernels were timed."""
    for name, (first, second, sign, target) in TARGETS.items():
        if first in samples and second in samples:
            found = compare(samples, first, second, workload=name, protocol=SCREENED.name)
            yield judged(name, found.ratio, found.low, found.high, sign, target)


class LaidOutArena:
    """An arena's call with K and V in other memory, as an engine lays them out."""

    def __init__(self, arena: Arena, layout: str) -> None:
        assert isinstance(arena.inputs, PagedInputs), "a bench has loaded its arenas from the host"
        given = arena.inputs.tensors
        laid = laid_out(layout, given["K"], given["V"])
        self._memory = [on_device(array) for array in laid.arrays]
        specs = operation_of(arena.workload).tensors(arena.workload)
        self._strides = {spec.name: spec.strides for spec in specs} | dict(laid.strides)
        begins = {
            name: int(self._memory[which].data.ptr) + 2 * begin
            for name, (which, begin) in laid.begins.items()
        }
        self._addresses = {name: buffer.pointer for name, buffer in arena.buffers.items()} | begins
        self._workload, self.outputs, self.buffers = arena.workload, arena.outputs, arena.buffers

    def packed_arguments(self, kernel: LoadedKernel) -> PackedArguments:
        """See Arena."""
        operation, scratch = operation_of(self._workload), scratch_of(kernel)
        given = (self._workload, self._addresses, self._strides)
        return pack_arguments(operation.arguments(*given, workspace=scratch))


def layouts(kernel: PreparedKernel, bench: Bench, *, rounds: int, seed: int) -> Iterator[dict[str, Any]]:
    """The same kernel on the same numbers in each layout: the slowest over the fastest, and whether all
    outputs are the same bits.
    """
    sides, outputs = [], []
    for layout in LAYOUTS:
        laid: Any = copy.copy(bench)
        laid.arenas = [LaidOutArena(arena, layout) for arena in bench.arenas]
        contender = KernelContender(layout, kernel.loaded(kernel.workload))
        sides.append(Timed(layout, contender, laid))
        bench.arenas[0].poison(bench.stream)
        contender.graph(laid, [0])()
        wait(bench.stream, limit_s=_LIMIT_S)
        outputs.append(bench.arenas[0].buffers["O"].read())
    samples = in_turns(sides, rounds=rounds, seed=seed)
    medians = {name: float(np.median(us)) for name, us in samples.items()}
    slow, fast = (pick(medians, key=medians.__getitem__) for pick in (max, min))
    found = compare(samples, slow, fast, workload="layouts", protocol=SCREENED.name)
    yield {
        **judged("layouts apart", found.ratio, found.low, found.high, "<=", _LAYOUTS_APART),
        "us": medians,
    }
    yield {"figure": "layouts to the bit", "is_met": all((each == outputs[0]).all() for each in outputs)}


# ---- bits


def output_bits(kernel: PreparedKernel, workload: PagedWorkload, inputs: PagedInputs) -> Any:
    """The rows of O that a guarded launch wrote: (rows and heads, columns)."""
    arena = Arena(workload, rng=np.random.default_rng())
    launch(kernel.loaded(workload), arena, inputs, stream=new_stream(), limit_s=_LIMIT_S)
    return arena.output().tensors["O"].reshape(-1, workload.head_dim)


def invariance(kernel: PreparedKernel, *, seed: int) -> Iterator[dict[str, Any]]:
    """Whether a sequence gives the same bits alone, in a batch, at any place and among copies of itself."""
    workload, rng = kernel.workload, np.random.default_rng(seed)
    inputs = draw("normal-again", workload, seed=seed)
    whole = output_bits(kernel, workload, inputs)
    for relation in (moves_sequences, ignores_company):
        found = relation(inputs, workload=workload, rng=rng)
        after = output_bits(kernel, workload, found.after.runs[0])
        assert isinstance(found.before, Rows), "of two runs"
        is_same = bool((whole[found.before.rows] == after).all())
        yield {"figure": f"to the bit: {found.change}", "is_met": is_same}
    rows = workload.seq_q * workload.heads
    same = [
        (whole[at * rows : (at + 1) * rows] == output_bits(kernel, *alone(workload, inputs, at))).all()
        for at in range(workload.batch)
    ]
    yield {"figure": "to the bit: each sequence alone", "is_met": all(map(bool, same))}


def one_graph(kernel: PreparedKernel, *, seed: int) -> dict[str, Any]:
    """A launch that is captured once, on five sets of lengths and pages one after the other, twice."""
    workload = kernel.workload
    arena, loaded, stream = (
        Arena(workload, rng=np.random.default_rng()),
        kernel.loaded(workload),
        new_stream(),
    )
    sets = [draw(name, workload, seed=seed) for name in _GRAPH_INPUTS]
    arguments = arena.packed_arguments(loaded)
    with stream:
        stream.begin_capture()
        loaded.enqueue_packed(arguments)
        graph = stream.end_capture()
    reasons = []
    for inputs in 2 * sets:
        arena.load(inputs)
        arena.poison(stream)
        graph.launch(stream)
        wait(stream, limit_s=_LIMIT_S)
        settle()
        right = compute_right(workload, {name: buffer.pointer for name, buffer in arena.buffers.items()})
        asked = right.comparison(
            workload, Side(arena.buffers["O"].pointer), lambda name: arena.buffers[name].pointer
        )
        found = read_results(ComparisonBatch([asked]).ask_now())[0]
        errors = right.errors(workload, found, name=inputs.name, is_ordinary=False)
        reasons += [
            f"{inputs.name}: {reason}" for reason in [judge_errors(workload, [errors]).reason] if reason
        ]
    return {"figure": "one graph, five sets of lengths, twice", "is_met": not reasons, "reasons": reasons}


# ---- the parts


class Session:
    """What all parts share: kernels that were found, benches, and the file."""

    def __init__(self, options: argparse.Namespace, spec: GpuSpec, seed: int) -> None:
        self.options, self.spec, self.seed = options, spec, seed
        self.kernels: dict[str, PreparedKernel] = {}
        self._benches: dict[str, Bench] = {}
        self.record: dict[str, Any] = {**run.made_on(), "seed": seed, "kernels": {}, "figures": []}

    def bench(self, name: str) -> Bench:
        """The inputs of a kernel's problem, made once."""
        workload = self.kernels[name].workload
        if str(workload) not in self._benches:
            self._benches[str(workload)] = Bench(workload, spec=self.spec, seed=self.seed)
        return self._benches[str(workload)]

    def side(self, name: str) -> Timed:
        """A kernel on its own inputs."""
        kernel = self.kernels[name]
        return Timed(name, KernelContender(name, kernel.loaded(kernel.workload)), self.bench(name))

    def rival(self, library: str, name: str) -> Timed | None:
        """A library on a kernel's inputs; None, and a line in the record, where it is absent."""
        try:
            return Timed(library, baseline(library, self.bench(name)), self.bench(name))
        except (BaselineAbsentError, BaselineFailedError) as absent:
            self.keep([{"figure": f"{library} beside {name}", "failure": str(absent)}])
            return None

    def keep(self, figures: Sequence[dict[str, Any]]) -> None:
        """Into the file, and a line for people each."""
        for each in figures:
            print("  ".join(f"{name}={value}" for name, value in each.items()), flush=True)
        self.record["figures"] += figures
        write_record(self.options.output, self.record)

    def judge(self, sides: Sequence[Timed], samples: Mapping[str, Sequence[float]]) -> None:
        """Medians, and whether what our kernels left behind is right."""
        for each in sides:
            us, verdict = float(np.median(samples[each.name])), None
            if isinstance(each.contender, KernelContender):
                verdict = judge_replay(
                    each.contender, each.bench, seed=self.seed, timed_us=min(samples[each.name])
                )
            wrong = verdict.reason if verdict is not None and not verdict.passed else ""
            line = {
                "figure": f"us of {each.name}",
                "us": round(us, 3),
                **({"failure": wrong} if wrong else {}),
            }
            self.keep([line])


def find_kernels(session: Session, wanted: Mapping[str, str], folder: Path, *, ends_s: float) -> None:
    """Search for each kernel that was not named, and check all."""
    options, given = session.options, dict(each.split("=", 1) for each in session.options.kernel)
    limited = write_limited_family(FAMILY, load_gpu(LIMITED), folder / "extension")
    os.environ["EVOFLASH_EXTENSIONS"] = str(folder / "extension")
    (folder / "cache").mkdir()
    for at, (name, problem) in enumerate(wanted.items()):
        own, began_s = folder / str(at), time.monotonic()
        own.mkdir()
        (own / "cache").symlink_to(folder / "cache")
        options.search_option = ["--no-archive", "--no-transfer"]
        if name.startswith(f"{LIMITED} "):
            options.search_option += ["--family", limited]
        try:
            if name in given:
                genome = known_genome(given[name], options.db, problem=problem, gpu=session.spec.name)[0]
            elif ends_s - began_s < options.limit:
                raise EvoflashError(f"{name}: not begun, the time was over")
            else:
                found, spent = holdout.searched(problem, options, own)
                session.record["kernels"][name] = {"problem": problem, "search": spent}
                if not found:
                    raise EvoflashError(f"{name}: the search found nothing, {spent.get('reason')}")
                genome = found[0].genome
            what = genome, parse_problem(problem), session.spec, session.seed
            session.kernels[name] = prepared(name, *what, is_checked=name not in given)
            known = {"id": genome.id, "family": genome.family, "values": genome.as_dict()}
            session.record["kernels"].setdefault(name, {"problem": problem}).update(known)
            line = {"kernel": name, "id": genome.id, "s": round(time.monotonic() - began_s, 1)}
            print("  ".join(f"{word}={value}" for word, value in line.items()), flush=True)
        except EvoflashError as error:
            session.keep([{"figure": name, "failure": str(error)}])


def measure(session: Session) -> None:
    """All figures whose kernels were found. A part that fails is a line; the next one is tried."""
    parts: list[Callable[[], None]] = [
        lambda: _own_ratios(session),
        lambda: _layouts(session),
        lambda: session.keep(list(invariance(session.kernels["invariant"], seed=session.seed))),
        lambda: session.keep([one_graph(session.kernels["page_16"], seed=session.seed)]),
        lambda: _limited(session),
    ]
    failures: tuple[type[BaseException], ...] = (*_FAILURES, *cuda_errors())
    for part in parts:
        try:
            part()
        except KeyError as missing:
            session.keep([{"figure": f"of {missing}", "failure": "no such kernel"}])
        except failures as error:
            session.keep([{"figure": "a part", "failure": f"{type(error).__name__}: {error}"}])


def _own_ratios(session: Session) -> None:
    names = [name for name in session.kernels if not name.startswith(f"{LIMITED} ")]
    sides = [session.side(name) for name in names]
    if "four_rows" in names and (rival := session.rival("fa3_paged", "four_rows")):
        sides.append(rival)
    samples = in_turns(sides, rounds=session.options.rounds, seed=session.seed)
    session.keep(list(ratios(samples)))
    session.judge(sides, samples)


def _layouts(session: Session) -> None:
    kernel, rounds = session.kernels["page_16"], session.options.rounds
    session.keep(list(layouts(kernel, session.bench("page_16"), rounds=rounds, seed=session.seed)))


def _limited(session: Session) -> None:
    """The kernels of the smaller space, each beside FlashInfer's decode of its problem; and their mean."""
    found = []
    for name in (name for name in session.kernels if name.startswith(f"{LIMITED} ")):
        rival = session.rival("flashinfer_decode", name)
        if rival is None:
            continue
        sides = [session.side(name), rival]
        samples = in_turns(sides, rounds=session.options.rounds, seed=session.seed)
        one = compare(samples, rival.name, name, workload=name, protocol=SCREENED.name)
        figures = one.ratio, one.low, one.high
        session.keep([judged(f"FlashInfer over {name}", *figures, ">=", _OVER_FLASHINFER)])
        session.judge(sides, samples)
        found.append(figures)
    if found:
        ratio, low, high = (float(each) for each in np.exp(np.log(np.array(found)).mean(axis=0)))
        session.keep([judged(f"FlashInfer over {LIMITED}, mean", ratio, low, high, ">=", _OVER_FLASHINFER)])


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--row", default=ROW, help="the problem whose pages and layouts are changed")
    parser.add_argument("--limited-rows", default=LIMITED_ROWS, help="problems of the smaller space")
    parser.add_argument("--only", default="", help="names of kernels to find, commas between; default: all")
    parser.add_argument("--kernel", action="append", default=[], help="NAME=ID, in the place of a search")
    parser.add_argument("--db", default="", help="where the ids are")
    parser.add_argument("--budget", type=int, default=100, help="of each search")
    parser.add_argument("--limit", type=float, default=75.0, help="seconds of wall time of a search in all")
    parser.add_argument("--search-limit", type=float, default=45.0, help="of it before the final timing")
    parser.add_argument("--search-pythonpath", help="PYTHONPATH of the searches; default: this process's")
    parser.add_argument("--rounds", type=int, default=40, help="samples of each contender")
    parser.add_argument("--time-limit", type=float, default=590.0, help="seconds in all")
    parser.add_argument("--least", type=float, default=110.0, help="of them for what is timed")
    parser.add_argument("--seed", type=int, help="of checks and inputs; default: drawn, and written down")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(words)
    options.minutes, options.gpu = None, ""
    return options


def main() -> int:
    """Search, check, time, write; 1 where a figure is missing or is not what it should be."""
    options, began_s = arguments(), time.monotonic()
    wanted = problems(options.row, options.limited_rows.split())
    if options.only:
        wanted = {name: wanted[name] for name in options.only.split(",")}
    seed = secrets.randbits(32) if options.seed is None else options.seed
    session = Session(options, present_spec(None), seed)
    with tempfile.TemporaryDirectory(prefix="evoflash-paged-") as folder:
        find_kernels(session, wanted, Path(folder), ends_s=began_s + options.time_limit - options.least)
        measure(session)
    session.record["took_s"] = round(time.monotonic() - began_s, 1)
    write_record(options.output, session.record)
    figures = [each for each in session.record["figures"] if "is_met" in each or "failure" in each]
    met = sum(bool(each.get("is_met")) and "failure" not in each for each in figures)
    print(f"{met} of {len(figures)} as they should be, in {session.record['took_s']:.0f} s: {options.output}")
    return int(met < len(figures))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except EvoflashError as error:
        sys.exit(f"paged_ratios: {error}")
