"""Makes docs/unseen.md of the records of scripts.peers.holdout: searches of problems that nobody tuned.

    python -m scripts.pages.unseen                                  write the page
    python -m scripts.pages.unseen --check                          say whether it is stale
    python -m scripts.pages.unseen --merge 0.json 1.json -o r.json  join parts of one measurement in a record

`--later FILE` beside --merge keeps a record of scripts.peers.run in it: the same winners, timed in another
session in turns with libraries that the first had not.

No figure enters the page by hand. Measures nothing.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts import ROOT
from scripts.pages import markdown
from scripts.pages.parts import without_archive
from scripts.pages.parts.without_archive import NEAR, near, ratios
from scripts.peers.ratios import LATER, NAMES, Line, least, line_of, mean, merged, with_later
from scripts.records import read_record, write_record

PAGE = ROOT / "docs" / "unseen.md"
FOLDER = ROOT / "scripts" / "peers" / "records"
ALONE = "without-archive-*.json*"  # records of searches without the archive
# Seeds or constants were chosen on these: their figures say nothing about a problem that nobody tuned.
TUNED_ON = frozenset(
    {
        "b=3,h=7,s=777,d=64",
        "b=1,h=8,s=640,d=64",
        "b=2,h=12,s=384,d=64,causal,dtype=bf16",
        "b=1,h=32,hkv=8,sq=1,skv=32768,d=128",
    }
)
_HEADS = ("problem", "ours us", "fastest library", "its us", "ratio", "search")
_TOP = """# What a search finds on a problem that nobody tuned

Made by `python -m scripts.pages.unseen` of the records `holdout-*.json` and `without-archive-*.json` in
scripts/peers/records; edit neither. The commands below are those that made the records, in the words of
their day.

Each row is one `evoflash search` as a user would run it: the shipped archive, all families, an empty cache
of compiled kernels. No row of [h200.md](h200.md) and no kernel that was in the archive then is of these
problems. Its winner was then timed in turns with the libraries, in one process. Ratio is the time of the
fastest library over ours: above 1 ours is faster. The libraries are cuDNN and FlashAttention-2 in torch, and
where they are named Triton (a kernel that we wrote in it, tuned), FlashAttention-4 as shipped (FA4) and with
the fastest of its tile settings (FA4, tuned), which its users would have to find for themselves, and
FlashAttention-3 (FA3: the build in xFormers 0.0.34, which chooses its number of splits itself). A library
"timed later" met the same winner in turns in a later session; its ratio is that session's, and counts like
the others. Long rows have two figures: at boost clock, and under the power cap.

Rows in italics are no such problems any more: seeds or constants of evoflash were chosen on them. They are
shown, but do not count in the means. Seconds by rung are those of all processes.
"""


def page(measured: Sequence[Mapping[str, Any]], alone: Sequence[Mapping[str, Any]] = ()) -> str:
    """The whole page, newest record first; of a day's, the one with the most problems that nobody tuned.

    `alone`: records of searches without the archive, which come last.
    """
    newest = sorted(measured, key=lambda record: (str(record["date"]), len(untuned(record))), reverse=True)
    parts = [line for record in newest for line in section(record)]
    parts += [line for record in alone for line in without_archive.section(record)]
    return "\n".join([_TOP, *parts]).rstrip() + "\n"


def section(record: Mapping[str, Any]) -> list[str]:
    """One measurement."""
    note = f" {record['merged'][0].upper()}{record['merged'][1:]}." if record.get("merged") else ""
    return [
        f"## {record['gpu']}, {spent(record)} a search, {record['date']}",
        "",
        f"{_mean(untuned(record))} Libraries that ran: {'; '.join(libraries(record))}. With evoflash "
        f"{record['evoflash']}, driver {record['driver']}.{note}",
        "",
        *markdown.table(_HEADS, (_row(row, record) for row in record["rows"])),
        "",
        *_made_by(record),
        "",
    ]


def untuned(record: Mapping[str, Any]) -> list[Line]:
    """The rows with figures of problems that nobody tuned."""
    return [line for line in _lines(record) if line.row not in TUNED_ON]


def _lines(record: Mapping[str, Any]) -> list[Line]:
    return [line for row in record["rows"] if (line := _line(row, record))]


def _line(row: Mapping[str, Any], record: Mapping[str, Any]) -> Line | None:
    """A row's figures, those of a later session among them; None where it has none."""
    line, later = line_of(row, {}), record.get("later", {}).get(row["row"])
    return line if line is None or later is None else with_later(line, line_of(later, {}))


def spent(record: Mapping[str, Any]) -> str:
    """What each search was given."""
    return f"{record['minutes']:g} minutes" if record.get("minutes") else f"{record['budget']} evaluations"


def libraries(record: Mapping[str, Any]) -> list[str]:
    """Those that were timed on any row, and right."""
    peers = (peer.peer for line in _lines(record) for state in line.states for peer in state.peers)
    ran = {peer.removesuffix(LATER) for peer in peers}
    return [name for name in NAMES.values() if name in ran]


def _mean(lines: Sequence[Line]) -> str:
    if not lines:
        return "No row here is of a problem that nobody tuned."
    lowest = least(lines)
    problems = "problem" if len(lines) == 1 else "problems"
    return (
        f"**Geometric mean over {len(lines)} {problems}: {mean(lines):.3f}**, the lowest "
        f"{lowest.states[0].peers[0].ratio:.3f} (`{lowest.row}`)."
    )


def _row(row: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    name = f"*`{row['row']}`*" if row["row"] in TUNED_ON else f"`{row['row']}`"
    searched, line = _searched(row.get("search", {})), _line(row, record)
    if line is None:
        return [name, *["-"] * 3, f"none: {row.get('failure') or 'no library was right'}", searched]
    best = line.states[0].peers[0]
    under_cap = f"; {line.states[1].peers[0]} under the power cap" if len(line.states) > 1 else ""
    us = f"{line.states[0].us:.2f}"
    return [name, us, best.peer, f"{best.us:.2f}", f"{best}{under_cap}", searched]


def _searched(search: Mapping[str, Any]) -> str:
    if not search:
        return "not begun"
    rungs = ", ".join(f"{rung} {s:.0f}" for rung, s in search.get("seconds_by_rung", {}).items())
    failed = f", ended by an error (exit code {code})" if (code := search.get("exit_code", 0)) else ""
    ending = ", stopped" if search["stopped"] else failed
    evaluated = f"{search.get('spent', 0)} evaluations, {search['wall_s']:.0f} s{ending}"
    return f"{evaluated} (s by rung: {rungs or 'none'})"


def _made_by(record: Mapping[str, Any]) -> list[str]:
    commands = record["command"]
    if isinstance(commands, str):
        commands = commands.split("; ")
    return ["By, with the seeds " + str(record["seed"]).strip("[]") + ":", "", "```sh", *commands, "```"]


def records(folder: Path, names: str = "holdout-*.json*") -> list[dict[str, Any]]:
    """All measurements of one kind."""
    paths = sorted(folder.glob(names))
    return [read_record(path) for path in paths]


def with_later_session(record: dict[str, Any], path: Path | None) -> dict[str, Any]:
    """The record with the rows of another session in it, and the command that made them."""
    if path is None:
        return record
    later = read_record(path)
    rows = {row["row"]: row for row in later["rows"]}
    command, seed = f"{record['command']}; {later['command']}", f"{record['seed']}, {later['seed']}"
    return {**record, "later": rows, "command": command, "seed": seed}


# ---- what the README says of it

_FEWEST = 5  # problems, for a mean that says something


def digest(records: Sequence[Mapping[str, Any]], alone: Sequence[Mapping[str, Any]]) -> str:
    """Two sentences, by the records of the newest day: what a search was given, and of each GPU the problems,
    the mean and the least ratio; what is found without the archive.
    """
    several = [record for record in records if len(untuned(record)) >= _FEWEST]
    day = max(str(record["date"]) for record in several)
    newest = [record for record in several if record["date"] == day]
    met = all({"FA3", "FA4"} <= set(libraries(record)) for record in newest)
    rivals = ", FlashAttention-3 and -4 among them" if met else ""
    return (
        f"Searches of problems that nobody tuned, {spent(newest[0])} each, ended so many times as fast as "
        f"the fastest library{rivals}: {', '.join(map(_by_gpu, newest))}. "
        f"{_alone(max(alone, key=lambda record: str(record['date'])))}\n"
    )


def _by_gpu(record: Mapping[str, Any]) -> str:
    lines = untuned(record)
    lowest = least(lines).states[0].peers[0].ratio
    many = f"geometric mean of {len(lines)}, least {lowest:.2f}"
    return f"{mean(lines):.2f} on an {record['gpu']} ({many})"


def _alone(record: Mapping[str, Any]) -> str:
    found = ratios(record)
    return (
        f"Without the archive and with one seed a family, {near(found)} of {len(found)} searches came within "
        f"{NEAR - 1:.0%} of what long work by hand had found."
    )


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="is the page stale?")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="files of scripts.peers.holdout")
    parser.add_argument("--later", type=Path, help="with --merge: the winners again, with other libraries")
    parser.add_argument("-o", "--output", type=Path, help="of --merge: the record")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the records")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args()
    if options.merge and not options.output:
        parser.error("--merge needs -o: the record to write")
    return options


def main() -> int:
    """Write, or with --check compare."""
    options = arguments()
    if options.merge:
        parts = [read_record(path) for path in options.merge]
        whole = with_later_session(merged(parts), options.later)
        write_record(options.output, whole)
    fresh = page(records(options.folder), records(options.folder, ALONE))
    return markdown.keep(options.page, fresh, made_by="scripts.pages.unseen", is_check=options.check)


if __name__ == "__main__":
    sys.exit(main())
