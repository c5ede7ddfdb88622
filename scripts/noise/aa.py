"""Can the benchmark be trusted? A kernel against itself, against a slower copy, and against an anchor.

    python -m scripts.noise.aa -o scripts/noise/records/aa-h200.json --time-limit 280

Four parts, for a short row (graph replays of a 5 us kernel) and a long one (0.7 ms, in both power states):
    calibrate   how much extra work at its start makes the kernel 1.5 % slower, by long runs
    aa          one kernel against itself: two copies of its cubin, loaded apart for every comparison
    planted     the kernel against its slower copy, likewise
    anchor      the ratio to another kernel, in fresh processes
Every comparison is a sequential test, as `evoflash compare` makes it, with its own limit of 2 s. The kernels
are winners of searches in scripts/searches/records. At the time limit the file is written with what is known
by then.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.gpu import launcher
from evoflash.gpu.timing.benchmark import combined_state
from evoflash.gpu.timing.noise_floor import environment
from evoflash.gpu.timing.paired import (
    ALPHA,
    LIMIT_S,
    LOOKS,
    MINIMAL_EFFECT,
    ContenderPair,
    PairedComparison,
    QuadTimes,
    SequentialTest,
    interval,
    run_sequential_test,
)
from scripts.noise.site import Row, Site, anchor, output, winner
from scripts.records import command, write_record

PARTS = ("calibrate", "aa", "planted", "anchor")
WANTED = (1.014, 1.016)  # how much slower the slower copy must be
_TRIES = 8
_ANCHOR_BLOCKS = {"cold": 40, "cold-sustained": 40, "cold-boost": 5}
_LONG_RUN_BLOCKS = {"cold": 160, "cold-sustained": 120, "cold-boost": 8}


ROWS = (
    Row("mission", "cold", 10, copies=200, planted=100),
    Row("s2k_d128", "cold-sustained", 400, copies=176, planted=88),
    Row("s2k_d128", "cold-boost", 400, copies=24, planted=12),
)


def long_run(site: Site, row: Row, *, extra: int, blocks: int) -> dict[str, Any]:
    """The slower copy over the kernel itself, in one long run."""
    bench, protocol, genome = site.bench(row.problem), site.protocol(row), winner(row.problem, site.gpu)
    slow = site.load(row.problem, genome, name="slow", extra=extra)
    plain = site.load(row.problem, genome, name="plain")
    if not np.array_equal(output(slow, bench), output(plain, bench)):
        raise SystemExit("the slower copy computes something else")
    pair = ContenderPair(slow, plain, bench, protocol, rng=site.rng)
    found = interval([pair.block().log_ratio for _ in range(blocks)])
    return {"extra": extra, "blocks": blocks, **asdict(found)}


def calibrate(site: Site, row: Row) -> list[dict[str, Any]]:
    """Long runs until the slower copy is 1.4 to 1.6 % slower; the last one is it."""
    runs, extra = [], row.first_guess
    for _ in range(_TRIES):
        runs.append(long_run(site, row, extra=extra, blocks=_LONG_RUN_BLOCKS[row.protocol]))
        print(f"{row.problem} {row.protocol}: {extra} iterations, {runs[-1]['ratio']:.5f}", flush=True)
        ratio = runs[-1]["ratio"]
        if WANTED[0] < ratio < WANTED[1]:
            return runs
        extra = next_guess([(run["extra"], run["ratio"]) for run in runs])
    raise SystemExit(f"no extra work made {row.problem} 1.4 to 1.6 % slower: {runs}")


def next_guess(tried: Sequence[tuple[int, float]]) -> int:
    """Between the nearest tries on either side of what is wanted; beyond the last one if all fell short."""
    middle = float(np.mean(WANTED))
    least, at_least = max((each for each in tried if each[1] < middle), default=(0, 1.0))
    above = [each for each in tried if each[1] > middle]
    if not above:
        return least * int(np.clip(np.ceil((middle - 1) / max(at_least - 1, 1e-4)), 2, 8))
    most, at_most = min(above)
    share = float(np.clip((middle - at_least) / (at_most - at_least), 0.1, 0.9))
    return max(1, round(least + share * (most - least)))


def comparisons(site: Site, row: Row, *, count: int, extra: int) -> Iterator[SequentialTest]:
    """Comparisons of two kernels loaded for them alone, until the time is up."""
    genome = winner(row.problem, site.gpu)
    for _ in range(count):
        if site.left_s < LIMIT_S:
            return
        first = site.load(row.problem, genome, name="first", extra=extra)
        second = site.load(row.problem, genome, name="second")
        yield run_sequential_test(first, second, site.bench(row.problem), site.protocol(row), rng=site.rng)


def summary(row: Row, tests: Sequence[SequentialTest]) -> dict[str, Any]:
    """What the answers, ratios, times and clocks of many comparisons were."""
    answers = [d.comparison.answer for d in tests]
    ratios = np.array([d.comparison.ratio for d in tests])
    took = [d.took_s for d in tests]
    return {
        "problem": row.problem,
        "protocol": row.protocol,
        "comparisons": len(tests),
        "answers": {answer: answers.count(answer) for answer in ("faster", "slower", "unclear")},
        "ratio_median": float(np.median(ratios)),
        "ratio_sd": float(ratios.std()),
        "ratio_min": float(ratios.min()),
        "ratio_max": float(ratios.max()),
        "took_s_median": float(np.median(took)),
        "took_s_max": max(took),
        "blocks_median": float(np.median([d.comparison.n for d in tests])),
        "us": _times(block for d in tests for block in d.blocks),
        "each": [_short(d.comparison) for d in tests],
    }


def _short(found: PairedComparison) -> list[float]:
    return [round(found.ratio, 6), round(found.low, 6), round(found.high, 6), found.n]


def _times(blocks: Iterator[QuadTimes]) -> dict[str, Any]:
    """Raw times of the second contender, and the clocks they were seen at."""
    seen = list(blocks)
    clock, words = combined_state([block.state for block in seen])
    p10, median, p90 = np.percentile([us for block in seen for us in block.second], [10, 50, 90])
    return {"median": median, "p10": p10, "p90": p90, "sm_clock_mhz": clock, "throttle": words}


def anchored(site: Site) -> list[dict[str, Any]]:
    """One fresh process's ratios of the winners to their anchors."""
    found = []
    for row in ROWS:
        first = site.load(row.problem, winner(row.problem, site.gpu), name="winner")
        second = site.load(row.problem, anchor(row.problem, site.gpu), name="anchor")
        pair = ContenderPair(first, second, site.bench(row.problem), site.protocol(row), rng=site.rng)
        blocks = [pair.block() for _ in range(_ANCHOR_BLOCKS[row.protocol])]
        mirrored = (QuadTimes(b.second, b.first, b.state) for b in blocks)
        ratio = interval([block.log_ratio for block in blocks]).ratio
        found.append(
            {
                "problem": row.problem,
                "protocol": row.protocol,
                "ratio": ratio,
                "winner_us": _times(mirrored),
                "anchor_us": _times(iter(blocks)),
            }
        )
    return found


def in_fresh_processes(site: Site, *, processes: int) -> list[dict[str, Any]]:
    """The ratios of fresh processes, as many as there is time for, and how far apart they lie."""
    site.forget()  # they need the room
    runs: list[list[dict[str, Any]]] = []
    for at in range(processes):
        words = [sys.executable, "-m", "scripts.noise.aa", "--gpu", site.gpu.name]
        words += ["--anchor-once", "--seed", str(at)]
        try:
            limit_s = max(site.left_s, 0.1)
            done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            break
        if done.returncode:
            raise SystemExit(f"a fresh process failed: {done.stderr.strip().splitlines()[-1:]}")
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    return [spread([run[at] for run in runs]) for at in range(len(ROWS))] if runs else []


def spread(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """How far apart fresh processes lie, in ratio and raw time: the largest over the smallest, minus 1."""
    ratios, raw = [each["ratio"] for each in found], [each["winner_us"]["median"] for each in found]
    return {
        "problem": found[0]["problem"],
        "protocol": found[0]["protocol"],
        "processes": len(found),
        "ratio_median": float(np.median(ratios)),
        "ratio_spread": max(ratios) / min(ratios) - 1,
        "raw_spread": max(raw) / min(raw) - 1,
        "each": list(found),
    }


def measure(site: Site, parts: Sequence[str], *, share: float, processes: int, path: Path) -> None:
    """All parts, row by row, so that each row's inputs are made once; written after every row."""
    head, started = _head(), time.monotonic()
    record: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
    extras: dict[str, int] = {}
    for row in ROWS:
        if {"calibrate", "planted"} & set(parts):
            runs = slower_copy(site, row, extras.get(row.problem))
            extras[row.problem] = runs[-1]["extra"]
            record["calibrate"].append({"problem": row.problem, "protocol": row.protocol, "runs": runs})
        for part, count in (("aa", row.copies), ("planted", row.planted)):
            wanted = round(count * share) if part in parts else 0
            extra = extras.get(row.problem, 0) if part == "planted" else 0
            if tests := list(comparisons(site, row, count=wanted, extra=extra)):
                record[part].append(summary(row, tests))
                print(part, line(record[part][-1]), flush=True)
        _write(path, head | record)
    if "anchor" in parts:
        record["anchor"] = in_fresh_processes(site, processes=processes)
        print("\n".join(map(anchor_line, record["anchor"])), flush=True)
    head["took_s"] = round(time.monotonic() - started, 1)
    _write(path, head | record)


def slower_copy(site: Site, row: Row, known: int | None) -> list[dict[str, Any]]:
    """One slower copy a problem: calibrated, or, in its other power state, only measured."""
    if known is None:
        return calibrate(site, row)
    return [long_run(site, row, extra=known, blocks=_LONG_RUN_BLOCKS[row.protocol])]


def _head() -> dict[str, Any]:
    present = launcher.present_gpu()
    return {
        "command": command(),
        "date": date.today().isoformat(),
        "gpu": present.device_name,
        "driver_cuda": present.driver,
        "environment": environment(),
        "looks": LOOKS,
        "limit_s": LIMIT_S,
        "minimal_effect": MINIMAL_EFFECT,
        "alpha": ALPHA,
    }


def _write(path: Path, found: dict[str, Any]) -> None:
    write_record(path, found)


def line(found: dict[str, Any]) -> str:
    """One row of a part, for people."""
    return (
        f"{found['problem']} {found['protocol']}: {found['comparisons']} times, {found['answers']}, ratio "
        f"{found['ratio_median']:.5f} sd {found['ratio_sd']:.5f} [{found['ratio_min']:.5f}, "
        f"{found['ratio_max']:.5f}], {found['took_s_median']:.2f} s each, at most {found['took_s_max']:.2f} s"
    )


def anchor_line(found: dict[str, Any]) -> str:
    """One row of the anchors, for people."""
    return (
        f"anchor {found['problem']} {found['protocol']}: {found['ratio_median']:.4f}, spread "
        f"{found['ratio_spread']:.3%} over {found['processes']} processes, raw {found['raw_spread']:.2%}"
    )


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {','.join(PARTS)}; default: all")
    parser.add_argument("--share", type=float, default=1.0, help="of the comparisons of each kind")
    parser.add_argument("--processes", type=int, default=10, help="fresh ones, for the anchor")
    parser.add_argument("--time-limit", type=float, default=540.0, help="seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--anchor-once", action="store_true", help="print one process's ratios to the anchors"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("aa.json"))
    options = parser.parse_args()
    parts = options.parts.split(",")
    if wrong := [part for part in parts if part not in PARTS]:
        parser.error(f"no part is called {wrong[0]}: use {', '.join(PARTS)}")
    site = Site(options.gpu, seed=options.seed, deadline=time.monotonic() + options.time_limit)
    if options.anchor_once:
        print(json.dumps(anchored(site)))
        return
    measure(site, parts, share=options.share, processes=options.processes, path=options.output)


if __name__ == "__main__":
    main()
