"""Compiles a family's proposals for GPUs that are not here, and says which do not compile, spill, or warn.

A proposal is a genome that a search may draw: a uniform one of the space under a compile key that is drawn as
well. Runs none. Exit code 1 where one does not compile, or fewer are without spills than asked.

    python -m scripts.families.compiled_proposals decode_mma --gpus a100,a10,l4 --draws 300 -o FILE
"""

import argparse
import os
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.errors import UsageError
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import Family, load_family
from evoflash.kernels.nvrtc import compile_candidate, nvrtc_version
from evoflash.kernels.renderer import render
from evoflash.specs import GpuSpec, load_gpu
from scripts.families.draws import OTHER_KEYS, Draw, draw_key, space_of
from scripts.families.in_flight import in_flight
from scripts.records import command, write_record

_LIMIT_S = 120.0  # of one compilation


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a proposal: empty words where nothing is wrong."""

    proposal: Draw
    wrong: str  # "does not compile", "spills", "warns"
    registers: int = 0
    spill_bytes: int = 0
    log: str = ""


def proposals(family: Family, gpu: GpuSpec, *, draws: int, seed: int) -> Iterator[Draw]:
    """So many, under as many keys; a key for which the family has no genome counts for none."""
    rng, found = np.random.default_rng([seed, zlib.crc32(gpu.name.encode())]), 0
    while found < draws:
        draw = OTHER_KEYS.get(family.op)
        key = draw(gpu, rng) if draw else draw_key(family, gpu, rng)
        try:
            genome = space_of(family, key, gpu).sample(rng, tries=20_000)
        except UsageError:
            continue
        found += 1
        yield Draw(family.name, genome, key, gpu.name)


def compiled(proposal: Draw) -> Compiled:
    """In a worker process."""
    build = compile_candidate(render(proposal.genome, proposal.key, load_gpu(proposal.gpu)))
    wrong = "does not compile" if not build.ok else "spills" if build.spill_bytes else ""
    wrong = wrong or ("warns" if build.warnings else "")
    return Compiled(proposal, wrong, build.registers, build.spill_bytes, build.log if not build.ok else "")


def summary(rows: Sequence[Compiled]) -> dict[str, Any]:
    """One GPU: counts, the share that is whole, and every proposal that is not."""
    counts = Counter(row.wrong or "whole" for row in rows)
    return {
        "proposals": len(rows),
        "keys": len({str(row.proposal.key) for row in rows}),
        **dict(sorted(counts.items())),
        "without_spills": round(1 - (counts["spills"] + counts["does not compile"]) / max(1, len(rows)), 4),
        "not_whole": [
            {
                "wrong": row.wrong,
                **row.proposal.as_dict(),
                "spill_bytes": row.spill_bytes,
                "registers": row.registers,
                **({"log": row.log[-400:]} if row.log else {}),
            }
            for row in rows
            if row.wrong
        ],
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("family")
    parser.add_argument("--gpus", default="a100,a10,l4", help="names, commas between")
    parser.add_argument("--draws", type=int, default=300, help="proposals for each GPU")
    parser.add_argument("--least", type=float, default=0.97, help="share that must be without spills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds in all")
    parser.add_argument("-o", "--out", type=Path)
    return parser.parse_args()


def main() -> int:
    """A line for each GPU and each proposal that is not whole."""
    options, began_s = arguments(), time.monotonic()
    family = load_family(options.family)
    found: dict[str, Any] = {}
    gpus = [load_gpu(name) for name in options.gpus.split(",")]
    with IsolatedPool(options.workers) as pool:
        for gpu in gpus:
            left_s = options.time_limit - (time.monotonic() - began_s)
            work = proposals(family, gpu, draws=options.draws, seed=options.seed)
            endings = in_flight(
                pool, compiled, work, many=2 * options.workers, limit_s=_LIMIT_S, time_limit_s=left_s
            )
            rows = [ending.value or Compiled(each, f"ends: {ending.reason}") for each, ending in endings]
            found[f"{gpu.name} ({gpu.arch})"] = summary(rows)
            for row in (row for row in rows if row.wrong):
                values = " ".join(f"{k}={v}" for k, v in row.proposal.genome.as_dict().items())
                print(
                    f"{gpu.name}: {row.wrong} {row.spill_bytes} B, {row.proposal.key}: {values}", flush=True
                )
    for name, each in found.items():
        print(name, {word: value for word, value in each.items() if word != "not_whole"}, flush=True)
    if options.out:
        head = {"command": command(), "date": str(date.today()), "nvrtc": nvrtc_version()}
        write_record(options.out, {**head, "family": family.name, "version": family.version, "gpus": found})
    is_short = any(each["proposals"] < options.draws for each in found.values())
    bad = any(
        each.get("does not compile") or each["without_spills"] < options.least for each in found.values()
    )
    return int(bad or is_short)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        sys.exit(f"compiled_proposals: {error}")
