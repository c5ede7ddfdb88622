"""Simulated searches on 1 to 512 GPUs, with task times that were measured: how far one search carries, and
what bounds it. Runs no kernel; a simulation is no measurement of a cluster.

What a GPU does per candidate comes from records of scripts.searches.stages (H200). What the search process
does for each (propose, learn, send, receive, store) is measured here, in CPU seconds, on a strategy that is
told invented times. Cores are taken to be as many for each GPU as in the records, finals are left out.

    python -m scripts.cluster.efficiency -o scripts/cluster/records/efficiency.json
"""

import argparse
import heapq
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evoflash.commands.search import plan as planning
from evoflash.commands.search.run import strategy_of
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.evaluators.cluster.connection import connected
from evoflash.evaluators.cluster.loopback import private_cluster
from evoflash.evaluators.cluster.processes import ClusterCores
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


def gpu_costs(stages: Path) -> tuple[float, float, float]:
    """Mean seconds of a look and of a proof, and the share that is proven, over the recorded searches."""
    found = [search for call in json.loads(stages.read_text())["calls"] for search in call["searches"]]
    looks, proofs = ([s["totals"][name] for s in found] for name in ("screened", "evaluate"))
    n_looks, n_proofs = (sum(each["n"] for each in part) for part in (looks, proofs))
    look_s, proof_s = sum(each["s"] for each in looks), sum(each["s"] for each in proofs)
    return look_s / n_looks, proof_s / n_proofs, n_proofs / n_looks


def strategy_s(name: str, *, evaluations: int, ahead: int) -> list[float]:
    """CPU seconds for asking and telling, one evaluation after the other."""
    plan = planning.plan(
        gpu="h200", problem="mission", strategy=name, seed=0, family=None, evaluator="emulated"
    )
    strategy, waiting, spent, rng = strategy_of(plan), deque[Any](), list[float](), np.random.default_rng(0)
    for _ in range(evaluations):
        began_s = time.process_time()
        while len(waiting) < ahead:
            proposal = strategy.ask()
            assert proposal is not None, "a space of millions is never spent"
            waiting.append(proposal)
        proposal = waiting.popleft()
        us = float(rng.lognormal(3.0, 0.5))
        what = (proposal.genome, str(plan.problem), "h200", Basis.ESTIMATED, Status.CORRECT, Rung.DONE)
        strategy.tell(proposal, Evaluation(*what, score_us=us))
        spent.append(time.process_time() - began_s)
    return spent[ahead:] if len(spent) > ahead else spent


def message_s(calls: int) -> float:
    """CPU seconds of the search process for a call on a cluster: client and scheduler, one thread's worth."""
    with private_cluster(cores=2) as address, connected(address) as connection:
        processes = ClusterCores(connection, expected=2).processes()
        processes.submit(divmod, 7, 2, timeout_s=60).result()
        began_s = time.process_time()
        for each in [processes.submit(divmod, 7, 2, timeout_s=60) for _ in range(calls)]:
            each.result()
        return (time.process_time() - began_s) / calls


def rate(gpus: int, costs: Costs, *, seed: int = 0) -> float:
    """Candidates a second on so many GPUs, after a search long enough for its beginning not to matter."""
    rng, ahead = np.random.default_rng(seed), _AHEAD * gpus
    count = max(12 * ahead, 6000)
    cores, devices = [0.0] * (_CORES * gpus), [0.0] * gpus
    done, now_s, half_s = deque[float](), 0.0, 0.0
    for at in range(count):
        if len(done) == ahead:  # outcomes are taken in the order of the proposals
            now_s = max(now_s, done.popleft())
        now_s += costs.serial_s
        ready_s = _served(cores, now_s, float(rng.gamma(4.0, _PREPARE_S / 4.0)))
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
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("-o", type=Path, required=True)
    args = parser.parse_args()
    look_s, proof_s, proven = gpu_costs(STAGES)
    sent_s = (1 + proven) * message_s(args.calls)
    stored_s = 0.0056  # Store.add of the same records
    found: dict[str, Any] = {"made_by": command(), "message_s": sent_s, "stored_s": stored_s}
    found |= {"look_s": look_s, "proof_s": proof_s, "proven": proven}
    for name in ("uniform", "evolution", "surrogate"):
        asked_s = float(np.mean(strategy_s(name, evaluations=args.evaluations, ahead=_AHEAD)))
        serial_s = asked_s + sent_s + stored_s
        rows = table(Costs(look_s, proof_s, proven, serial_s))
        found[name] = {"asked_s": asked_s, "serial_s": serial_s, "most_per_s": 1 / serial_s, "rows": rows}
    args.o.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
