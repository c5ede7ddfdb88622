"""Simulated searches on 1 to 512 GPUs, with task times that were measured: how far one search carries, and
what bounds it. Runs no kernel; a simulation is no measurement of a cluster.

What a GPU does per candidate comes from records of scripts.searches.stages (H200). What the search process
and the scheduler do for each is measured here, in CPU seconds, in searches on stand-ins (whole_search.py).
Cores are taken to be as many for each GPU as in the records, finals are left out.

    python -m scripts.cluster.efficiency -o scripts/cluster/records/efficiency.json
"""

import argparse
import heapq
import json
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts.cluster.stand_ins import jobs
from scripts.cluster.whole_search import Measured, searched
from scripts.command_line import command

STAGES = Path("scripts/searches/records/stages-h200-2026-11-23.json")
GPUS = (1, 2, 8, 64, 512)
_PREPARE_S, _CORES = 2.0, 16  # of a genome on one core; cores for each GPU (docs/h200.md's machine)
_AHEAD = 32  # proposals in flight for each GPU (evaluators/measured.py)


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of each candidate."""

    look_s: float  # of a GPU, on every candidate
    proof_s: float  # of a GPU, on the share that is proven
    proven: float
    serial_s: float  # of the search process
    scheduler_s: float = 0.0  # of the cluster's scheduler


def gpu_costs(stages: Path) -> tuple[float, float, float]:
    """Mean seconds of a look and of a proof, and the share that is proven, over the recorded searches."""
    found = [search for call in json.loads(stages.read_text())["calls"] for search in call["searches"]]
    looks, proofs = ([s["totals"][name] for s in found] for name in ("screened", "evaluate"))
    n_looks, n_proofs = (sum(each["n"] for each in part) for part in (looks, proofs))
    look_s, proof_s = sum(each["s"] for each in looks), sum(each["s"] for each in proofs)
    return look_s / n_looks, proof_s / n_proofs, n_proofs / n_looks


def serial_costs(name: str, evaluations: int) -> Measured:
    """What a candidate of a real search takes of the search process and of the scheduler, in CPU seconds; on
    two stand-ins for GPUs which take no time, so that nothing but that is done.
    """
    gpu = jobs(look_s=0.0, proof_s=0.0, proven=gpu_costs(STAGES)[2])
    search = partial(searched, 2, gpu, strategy=name, opening=_AHEAD, ahead=_AHEAD)
    search(budget=_AHEAD + evaluations)  # compiles
    return search(budget=_AHEAD + evaluations)


def rate(gpus: int, costs: Costs, *, seed: int = 0) -> float:
    """Candidates a second on so many GPUs, after a search long enough for its beginning not to matter."""
    rng, ahead = np.random.default_rng(seed), _AHEAD * gpus
    count = max(12 * ahead, 6000)
    cores, devices, scheduler = [0.0] * (_CORES * gpus), [0.0] * gpus, [0.0]
    done, now_s, half_s = deque[float](), 0.0, 0.0
    for at in range(count):
        if len(done) == ahead:  # outcomes are taken in the order of the proposals
            now_s = max(now_s, done.popleft())
        now_s += costs.serial_s
        ready_s = _served(scheduler, now_s, costs.scheduler_s)
        ready_s = _served(cores, ready_s, float(rng.gamma(4.0, _PREPARE_S / 4.0)))
        look_s = float(rng.gamma(2.0, costs.look_s / 2.0))
        proof_s = float(rng.gamma(2.0, costs.proof_s / 2.0)) if rng.random() < costs.proven else 0.0
        done.append(_served(devices, ready_s, look_s + proof_s))
        if at == count // 2:
            half_s = now_s
    return (count - count // 2) / (now_s - half_s)


def _served(servers: list[float], from_s: float, took_s: float) -> float:
    """When the next free one of them is done."""
    end_s = max(from_s, heapq.heappop(servers)) + took_s
    heapq.heappush(servers, end_s)
    return end_s


def table(costs: Costs) -> Sequence[dict[str, float]]:
    """A row for each number of GPUs."""
    alone = rate(1, costs)
    return [{"gpus": n, "per_s": (each := rate(n, costs)), "efficiency": each / n / alone} for n in GPUS]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--evaluations", type=int, default=168)
    parser.add_argument("-o", type=Path, required=True)
    args = parser.parse_args()
    look_s, proof_s, proven = gpu_costs(STAGES)
    found: dict[str, Any] = {"made_by": command(), "load": os.getloadavg()}
    found |= {"look_s": look_s, "proof_s": proof_s, "proven": proven}
    for name in ("uniform", "evolution", "surrogate"):
        each = serial_costs(name, args.evaluations)
        rows = table(Costs(look_s, proof_s, proven, each.cpu_s, each.scheduler_s))
        found[name] = {"search": asdict(each), "most_per_s": 1 / max(each.cpu_s, each.scheduler_s)}
        found[name] |= {"rows": rows}
        args.o.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
