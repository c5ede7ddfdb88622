"""Makes evoflash/estimate_error.toml: how far each family's estimates are from times that a GPU took.

    python -m scripts.model.error [--family flash_mma] [--jobs 2]

The kernels, of several problems and GPUs, their measured times and the model's estimates stand in a record.
Each kernel is compiled and counted in the emulator, as a search without a GPU does. For each family: the
median and the 90 % range of the measured time over the estimate, how far two thirds of a problem's ratios
are from their median, and Kendall's tau, the mean over problems that the model's constants were not fitted
to, where the record holds some out. To be run anew when the model's constants or a family change; takes one
to six CPU seconds for each kernel that is not in the cache as it is today (counts.py), a tenth of that else.
Measures nothing. Groups that were timed with an earlier text of their family keep the estimates of that
text, until they are timed anew (time_again.py) or the model changes.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from evoflash.errors import UsageError
from evoflash.estimate_error import TABLE
from evoflash.evaluation import score
from evoflash.evaluators.prepare import estimates
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import load_gpu
from scripts.families.in_flight import in_flight
from scripts.model.counts import counted
from scripts.records import read_record, stored, write_record

_HEAD = "# Made by `python -m scripts.model.error`. Ratios are measured times over estimates.\n"
RECORD = Path(__file__).parent / "records" / "estimates-beside-times.json"
_LIMIT_S, _ALL_LIMIT_S = 120.0, 7200.0  # of a kernel, of a family
PLACE = "family", "gpu", "problem"  # of a group of kernels in the record
_HELD_OUT = "held_out"  # says that no constant of the model was fitted to a group
EARLIER = "earlier"  # says that an earlier text of the family was timed, and by which model it was estimated
_FEWEST = 8  # kernels of a problem; with fewer an order says nothing
_ALIKE = 1.01  # times nearer than this have no order: so much does a kernel differ from itself


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """A kernel, what a GPU took and what the model says, both in us; None where it is no kernel of today."""

    family: str
    gpu: str
    problem: str
    values: Mapping[str, Any]
    us: float
    estimate_us: float | None
    is_held_out: bool = False
    earlier: str = ""  # the model's version, where the text that was timed is not the family's any more

    @property
    def ratio(self) -> float:
        """The measured time over the estimate."""
        return self.us / (self.estimate_us or math.nan)


def timed_kernels() -> list[TimedKernel]:
    """All of the record."""
    return [
        TimedKernel(
            group["family"],
            group["gpu"],
            group["problem"],
            values,
            us,
            estimate_us,
            _HELD_OUT in group,
            group.get(EARLIER, ""),
        )
        for group in read_record(RECORD)["groups"]
        for values, us, estimate_us in group["kernels"]
    ]


def estimated(kernel: TimedKernel) -> TimedKernel:
    """The kernel with what the model says of it today; of an earlier text what this model said of it."""
    if kernel.earlier:
        return kernel if kernel.earlier == model_version() else replace(kernel, estimate_us=None)
    return replace(kernel, estimate_us=_estimate_us(kernel))


def _estimate_us(kernel: TimedKernel) -> float | None:
    problem, gpu = parse_problem(kernel.problem), load_gpu(kernel.gpu)
    genome = genome_of_today(
        load_family(kernel.family).space(problem.compile_keys(gpu.arch), gpu), kernel.values
    )
    if genome is None:
        return None
    prepared = counted(genome, problem, gpu)
    if prepared.failure:
        return None
    found = score([each.total_us for each in estimates(genome, prepared, problem, gpu)])
    return None if found is None else round(found, 4)


def genome_of_today(space: SearchSpace, values: Mapping[str, Any]) -> Genome | None:
    """The genome with genes that its family got since at their first values."""
    try:
        genome = space.genome(dict(values))
    except UsageError:
        return None
    return None if space.violations(genome) else genome


def tau(kernels: Sequence[TimedKernel]) -> float:
    """Kendall's tau-b of times and estimates, over pairs whose times are apart: 1 is the same order, 0 none;
    equal estimates have no order.
    """
    agree = pairs = unlike_estimates = 0
    for first, second in itertools.combinations(sorted(kernels, key=attrgetter("us")), 2):
        if second.us >= _ALIKE * first.us:
            one, two = (first.estimate_us or 0.0), (second.estimate_us or 0.0)
            agree += (two > one) - (two < one)
            pairs += 1
            unlike_estimates += one != two
    scale = math.sqrt(pairs * unlike_estimates)
    return agree / scale if scale else 0.0


def summary(kernels: Sequence[TimedKernel]) -> dict[str, Any]:
    """A family's row of the table."""
    groups: dict[tuple[str, str], list[TimedKernel]] = {}
    for each in kernels:
        groups.setdefault((each.gpu, each.problem), []).append(each)
    ratios = [each.ratio for each in kernels]
    low, *_, high = statistics.quantiles(ratios, n=20, method="inclusive")
    large = [group for group in groups.values() if len(group) >= _FEWEST]
    apart = sorted(itertools.chain.from_iterable(map(_apart, large)))
    unseen = [group for group in large if group[0].is_held_out]
    return {
        "kernels": len(kernels),
        "problems": len(groups),
        "gpus": sorted({gpu for gpu, _ in groups}),
        "median": round(statistics.median(ratios), 3),
        "low": round(low, 3),
        "high": round(high, 3),
        "spread": round(math.exp(apart[math.ceil(len(apart) * 2 / 3) - 1]), 3),
        "tau": round(statistics.mean(map(tau, unseen or large)), 3),
        "held_out": len(unseen),
    }


def _apart(group: Sequence[TimedKernel]) -> list[float]:
    """How far each of a problem's ratios is from their median, as a logarithm."""
    middle = statistics.median(each.ratio for each in group)
    return [abs(math.log(each.ratio / middle)) for each in group]


def summaries(kernels: Sequence[TimedKernel]) -> dict[str, dict[str, Any]]:
    """The table's row of each family with enough kernels of a problem, over all that have an estimate."""
    families: dict[str, list[TimedKernel]] = {}
    for each in kernels:
        if each.estimate_us:
            families.setdefault(each.family, []).append(each)
    sizes = {family: Counter((each.gpu, each.problem) for each in own) for family, own in families.items()}
    enough = sorted(family for family, counts in sizes.items() if max(counts.values()) >= _FEWEST)
    return {family: summary(families[family]) for family in enough}


def main() -> int:
    """Estimate, say, write; estimates of other families stay where one is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", help="only this one; may be given more than once")
    parser.add_argument("--jobs", type=int, default=2, help="kernels at a time (2)")
    arguments = parser.parse_args()
    asked, many = arguments.family, arguments.jobs
    known, found = timed_kernels(), {}
    with IsolatedPool(many) as pool:
        work = (at for at in enumerate(known) if not asked or at[1].family in asked)
        limits = {"limit_s": _LIMIT_S, "time_limit_s": _ALL_LIMIT_S}
        for (at, kernel), ending in in_flight(pool, _numbered, work, many=many, **limits):
            found[at] = ending.value or replace(kernel, estimate_us=None)
    now = [found.get(at, kernel) for at, kernel in enumerate(known)]
    write_record(stored(RECORD), {**read_record(RECORD), "groups": _groups(now)})
    rows = summaries(now)
    TABLE.write_text(_table(rows), encoding="utf-8")
    for family, row in rows.items():
        print(family, json.dumps(row))
    return 0


def _numbered(at: tuple[int, TimedKernel]) -> TimedKernel:
    return estimated(at[1])


def _table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """As TOML: a row for each family, of estimates by today's model."""
    text = [f'{_HEAD}model_version = "{model_version()}"\n']
    for family, values in rows.items():
        text.append(f"\n[family.{family}]\n")
        text += [f"{key} = {json.dumps(value)}\n" for key, value in values.items()]
    return "".join(text)


def _groups(kernels: Sequence[TimedKernel]) -> list[dict[str, Any]]:
    """As the record has them."""
    return [
        {
            **dict(zip(PLACE, where, strict=True)),
            **({_HELD_OUT: True} if is_held_out else {}),
            **({EARLIER: earlier} if earlier else {}),
            "kernels": [[dict(each.values), each.us, each.estimate_us] for each in group],
        }
        for (*where, is_held_out, earlier), group in itertools.groupby(
            kernels, key=attrgetter(*PLACE, "is_held_out", "earlier")
        )
    ]


if __name__ == "__main__":
    sys.exit(main())
