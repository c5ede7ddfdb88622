"""Makes the shipped archive of a GPU from what was measured on it: records of peers and arms, databases.

    python -m scripts.pages.champions scripts/peers/records/peers-h200.json -o evoflash/champions/h200.toml

Of each problem the fastest genome stays that was timed again in turns with the baselines and was right. What
the output file holds from other sources takes part; `--fresh` forgets all but which GPU it starts from.
Measures and estimates nothing.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from evoflash.champions import Champion, read_champions
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import FINAL, Basis, Run, score, was_timed_again
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import GpuSpec, load_gpu
from evoflash.store.store import Store, open_store
from scripts.peers.ratios import bridging_ratio
from scripts.peers.rows import anchors
from scripts.records import read_record

_VERSIONS = 50  # a record says a genome's id, not its family's version: the one that gives the id
# What records say that they were made by; the older ones name the file that the script was then.
_PEERS = ("scripts.peers.run", "scripts/peers.py")
_ARMS = ("scripts.searches.arms", "scripts/arms.py")
HEAD = """\
# The fastest genome measured for each problem on this GPU: where searches start, and what `evoflash best`
# checks and times again before it says it. Times are medians in us of one run, the libraries' in turns with
# the kernel's; those under bridged_us did not run then (docs/glossary.md, "bridged"). [source.<name>] says
# what measured them. Written by scripts/pages/champions.py; not by hand.
"""


def champions_of(source: str, gpu: GpuSpec) -> list[Champion]:
    """What one source has for the GPU. UsageError for a file that is neither a record nor a database."""
    if not source.endswith(".json"):
        return list(_of_database(source, gpu))
    record = read_record(Path(source))
    made_by = record.get("made_by") if isinstance(record, dict) else None
    if made_by in _PEERS:
        return list(_of_peers(record, source, gpu))
    if made_by in _ARMS:
        return list(_of_arms(record, source, gpu))
    raise UsageError(f"{source} is no record of scripts.peers.run or of a control arm: leave it out.")


# ---- records of searches beside a control arm (scripts/searches/records)


def _of_arms(record: dict[str, Any], source: str, gpu: GpuSpec) -> Iterator[Champion]:
    """The winners of both arms, where they are right and the record is of this GPU."""
    if record["gpu"] not in gpu.device_names:
        return
    baselines = {
        name: ranked(record["timings"][name]) for name in record["environment"] if not record["wrong"][name]
    }
    winners = [arm["winner"] for arm in record["arms"].values()]
    for winner in winners:
        protocol, us = ranked(record["timings"][winner["id"]])
        if record["wrong"][winner["id"]]:
            continue
        yield Champion(
            problem=record["problem"],
            gpu=gpu.name,
            genome=_genome(winner),
            device=record["gpu"],
            date=record["date"],
            evoflash=record.get("evoflash", ""),
            protocol=protocol,
            us=us,
            rivals_us={name: theirs for name, (same, theirs) in baselines.items() if same == protocol},
            source=source,
            command=record["command"],
        )


# ---- records of scripts/peers/run.py


def _of_peers(record: dict[str, Any], source: str, gpu: GpuSpec) -> Iterator[Champion]:
    """Ours of each row that was timed and right, where the record is of this GPU."""
    if record["gpu"] not in gpu.device_names:
        return
    for row in record["rows"]:
        ours = row.get("ours")
        if row.get("failure") or not ours or row["wrong"].get(ours["id"]):
            continue
        protocol, us = ranked(row["timings"][ours["id"]])
        baselines = {
            name: ranked(row["timings"][name]) for name in row["environment"] if name in row["timings"]
        }
        rivals_us = {
            name: theirs
            for name, (same, theirs) in baselines.items()
            if same == protocol and not row["wrong"].get(name)
        }
        yield Champion(
            problem=str(parse_problem(row["row"])),
            gpu=gpu.name,
            genome=_genome(ours),
            device=record["gpu"],
            date=record["date"],
            evoflash=record["evoflash"],
            protocol=protocol,
            us=us,
            rivals_us=rivals_us,
            source=source,
            command=record["command"],
            bridged_us=_bridged(rivals_us, row["row"], protocol),
        )


def _bridged(rivals_us: Mapping[str, float], row: str, protocol: str) -> dict[str, float]:
    """FlashAttention-3, where it did not run, as docs/h200.md has it."""
    anchor = anchors().get(row, {}).get(protocol.removeprefix("final-"), {})
    ratio = bridging_ratio(rivals_us, anchor)
    return {} if ratio is None else {"fa3": rivals_us["sdpa_cudnn"] * ratio}


def ranked(timings: Iterable[dict[str, Any]]) -> tuple[str, float]:
    """The protocols that rank, and the geometric mean of their medians in us over the workloads."""
    final = [t for t in timings if t["protocol"] in FINAL]
    times_us = [t["median_us"] for t in final]
    # One time is itself: through exp and log its last digits would change.
    mean_us = times_us[0] if len(times_us) == 1 else score(times_us)
    return "+".join(sorted({t["protocol"] for t in final})), mean_us


def _genome(said: dict[str, Any]) -> Genome:
    values = tuple(sorted(said["values"].items()))
    made = (Genome(said["family"], version, values) for version in range(1, _VERSIONS))
    genome = next((genome for genome in made if genome.id == said["id"]), None)
    if genome is None:
        raise UsageError(f"the values of {said['id']} give another id: the record was changed, leave it out.")
    return genome


# ---- databases


def _of_database(source: str, gpu: GpuSpec) -> Iterator[Champion]:
    """The best of each measured run whose finalists were timed again."""
    with open_store(source, read_only=True) as store:
        for run in store.runs():
            if (run.key.gpu, run.key.basis) == (gpu.name, Basis.MEASURED):
                yield from _of_run(store, run, source, gpu)


def _of_run(store: Store, run: Run, source: str, gpu: GpuSpec) -> Iterator[Champion]:
    best = store.best_of(run)
    if best is None or not was_timed_again(best):
        return
    protocol, us = ranked(map(_as_dict, best.timings))
    baselines = {each.name: ranked(map(_as_dict, each.timings)) for each in store.baselines(run)}
    yield Champion(
        problem=run.key.problem,
        gpu=gpu.name,
        genome=best.genome,
        device=best.environment.get("gpu", gpu.device_names[0]),
        date=run.created[:10],
        evoflash=run.evoflash_version,
        protocol=protocol,
        us=us,
        rivals_us={name: theirs for name, (same, theirs) in baselines.items() if same == protocol},
        source=f"{Path(source).name}, run {run.id}",
        command=" ".join(["evoflash", *run.argv]),
    )


def _as_dict(timing: Any) -> dict[str, Any]:
    return {"protocol": timing.protocol, "median_us": timing.median_us}


# ---- which stay, and how they are written


def fastest(found: Iterable[Champion], *, is_current: Callable[[Genome], bool]) -> list[Champion]:
    """One champion a problem, by problem: of a family's present version before any of an older one.

    Runs differ in clock and machine: where all records of a problem have a baseline in common, the time over
    that baseline's decides, else the time.
    """
    of_problem: dict[str, list[Champion]] = {}
    for each in found:
        of_problem.setdefault(each.problem, []).append(each)
    best = []
    for problem in sorted(of_problem):
        entries = of_problem[problem]
        common = set.intersection(*(set(each.rivals_us) for each in entries))
        baseline = "sdpa_cudnn" if "sdpa_cudnn" in common else min(common, default="")
        pace = {id(each): each.us / each.rivals_us.get(baseline, 1.0) for each in entries}
        best.append(min(entries, key=lambda each: (not is_current(each.genome), pace[id(each)])))
    return best


def is_current(genome: Genome) -> bool:
    """Whether it is of its family's version of today."""
    try:
        return load_family(genome.family).version == genome.version
    except UsageError:
        return False


def as_toml(found: Sequence[Champion], *, starts_from: str = "") -> str:
    """The file's text. `starts_from`: another GPU whose champions searches start from, too."""
    names: dict[tuple[str, str], str] = {}  # of what is said of a source: its name in the file
    for source in ((each.source, each.command) for each in found):
        stem = Path(source[0]).stem
        names.setdefault(source, stem if stem not in names.values() else f"{stem}-{len(names)}")
    heads = [
        "\n".join([f"[source.{_key(name)}]", *_lines({"source": source, "command": command})]) + "\n"
        for (source, command), name in names.items()
    ]
    other = [*_lines({"starts_from": starts_from}), ""] if starts_from else []
    entries = (_entry(each, names[each.source, each.command]) for each in found)
    return "\n".join([HEAD, *other, *heads, *entries])


def _entry(champion: Champion, source: str) -> str:
    genome = champion.genome
    plain = {
        "problem": champion.problem,
        "family": genome.family,
        "version": genome.version,
        "genome_id": genome.id,
    }
    left_out = {"problem", "gpu", "genome", "rivals_us", "bridged_us", "source", "command"}
    plain |= {f.name: getattr(champion, f.name) for f in fields(champion) if f.name not in left_out}
    plain["source"] = source
    lines = ["[[champion]]", *_lines(plain), "[champion.values]", *_lines(genome.as_dict())]
    lines += ["[champion.rivals_us]", *_lines(dict(champion.rivals_us))]
    if champion.bridged_us:
        lines += ["[champion.bridged_us]", *_lines(dict(champion.bridged_us))]
    return "\n".join(lines) + "\n"


def _lines(table: dict[str, Any]) -> list[str]:
    # JSON's numbers, words and escapes are TOML's too.
    return [f"{_key(name)} = {json.dumps(value)}" for name, value in table.items()]


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name, flags=re.ASCII) else json.dumps(name)


def _held(output: Path, sources: Sequence[str]) -> list[Champion]:
    """What the file holds of other sources than those that are read again."""
    held = read_champions(output) if output.exists() else ()
    return [champion for champion in held if champion.source not in sources]


def _other_gpu(output: Path) -> str:
    table = tomllib.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    return str(table.get("starts_from", ""))


def main() -> int:
    """Read, choose, write; one line for each champion."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="+", help="records of scripts/peers/run.py, or databases")
    parser.add_argument("--fresh", action="store_true", help="forget what the output file holds")
    parser.add_argument("-o", "--output", type=Path, required=True, help="evoflash/champions/<gpu>.toml")
    args = parser.parse_args()
    try:
        gpu = load_gpu(args.output.stem)
        found = [] if args.fresh else _held(args.output, args.sources)
        found += [champion for source in args.sources for champion in champions_of(source, gpu)]
    except (EvoflashError, OSError) as error:
        print(f"champions: {error}", file=sys.stderr)
        return 1
    kept = fastest(found, is_current=is_current)
    text = as_toml(kept, starts_from=_other_gpu(args.output))
    args.output.write_text(text, encoding="utf-8")
    for each in kept:
        print(f"{each.us:10.2f} us  {each.genome.family} {each.genome.id}  {each.problem}  ({each.source})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
