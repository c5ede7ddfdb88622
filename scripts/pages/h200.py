"""Makes docs/h200.md of the records of scripts/peers: each row against its fastest peer and its target.

    python -m scripts.pages.h200                         write the page
    python -m scripts.pages.h200 --check                 say whether it is stale
    python -m scripts.pages.h200 --merge 0.json 1.json   first join parts of scripts.peers.run in the record

No figure enters the page by hand. Measures nothing; what bridges FlashAttention-3 is in anchors-h200.json.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evoflash.space import word_of
from scripts import ROOT
from scripts.pages.markdown import keep, table
from scripts.peers.ratios import BRIDGED, NAMES, Line, least, line_of, mean, merged, target
from scripts.peers.read_only import NAME as READ_ONLY
from scripts.peers.read_only import bytes_read
from scripts.peers.rows import ANCHORS, ROWS, anchors, workload_of
from scripts.records import read_record, stored, write_record

PAGE = ROOT / "docs" / "h200.md"
RECORD = ANCHORS.with_name("peers-h200.json")
MEAN_TARGET = 1.12


# ---- the page


def page(record: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole page."""
    rows = {each["row"]: each for each in record["rows"]}
    lines = [line for row in rows if (line := line_of(rows[row], known.get(row, {})))]
    order = list(known)
    lines.sort(key=lambda line: order.index(line.row) if line.row in known else len(order))
    parts = [_TOP, *_summary(lines), "", *ranked(lines), ""]
    parts += ["## Under the power cap", "", *sustained(lines), ""]
    parts += ["## Every peer", "", "Times in us in the state that is ranked.", "", *every_peer(lines), ""]
    parts += ["## Our kernels", "", *kernels(lines), "", "## What is missing", "", *missing(rows, lines), ""]
    return "\n".join([*parts, "## How", "", *how(record)]) + "\n"


_TOP = """# Attention forward on one H200: ours against the fastest peer

Made by `python -m scripts.pages.h200` of the records in scripts/peers/records; edit neither.
The commands below are those that made the records, in the words of their day.

Ratio is the time of the fastest peer over ours: above 1 ours is faster. Peers: cuDNN and FlashAttention-2
(FA2) in torch, Triton (a kernel that we wrote in it, tuned), FlashAttention-4 (FA4) as shipped and with the
fastest of its tile settings, all timed in turns with ours; and FlashAttention-3 (FA3), which did not run
there: cuDNN's time of this run times FA3 over cuDNN of the same row and power state in
scripts/peers/records/anchors-h200.json. Its interval is that of ours against cuDNN, scaled: how far the
bridge itself is off is not in it.
The targets are 1.05 for head dimension 64 from length 1k on, 1.00 for 128, 1.25 for the short
rows, and for decode8k 0.97 of what the read bandwidth allows, which a kernel that only reads K and V measures
in the same turns. Met: by the whole interval; unclear where the interval holds the target.
"""


def _summary(lines: Sequence[Line]) -> list[str]:
    met = sum(line.is_met == "yes" for line in lines)
    unclear = sum(line.is_met == "unclear" for line in lines)
    missed = len(lines) - met - unclear
    return [
        f"**Geometric mean over {len(lines)} of {len(ROWS)} rows: {mean(lines):.3f}** (target "
        f"{MEAN_TARGET}). Targets met: {met}, unclear: {unclear}, missed: {missed}. In the mean every row "
        "counts by its fastest peer, decode8k too. Of the long rows under the power cap it is "
        f"{mean(lines, state=1):.3f}."
    ]


def ranked(lines: Sequence[Line]) -> list[str]:
    """The table that is judged."""
    heads = ("row", "ours us", "TFLOPS", "fastest peer", "its us", "ratio", "target", "met", "kernel")
    return table(heads, map(_judged, lines))


def _judged(line: Line) -> list[str]:
    state, best = line.states[0], line.states[0].peers[0]
    ratio, aim = str(best), f"{target(line.row):.2f}"
    if state.bandwidth is not None:
        gb_s = bytes_read(workload_of(line.row)) / _read_us(line) / 1e3
        ratio += f"; of the bandwidth {state.bandwidth}"
        aim += f" of {gb_s:.0f} GB/s"
    ours = line.record["ours"]
    name = f"`{ours['family']}` {ours['id'][:8]}"
    us, tflops = f"{state.us:.2f}", f"{_tflops(line.row, state.us):.0f}"
    return [f"`{line.row}`", us, tflops, best.peer, f"{best.us:.2f}", ratio, aim, line.is_met, name]


def _read_us(line: Line) -> float:
    return float(line.record["timings"][READ_ONLY][0]["median_us"])


def _tflops(row: str, us: float) -> float:
    return workload_of(row).reported_flops / us / 1e6


def sustained(lines: Sequence[Line]) -> list[str]:
    """The long rows after 0.25 s of running."""
    heads = ("row", "ours us", "TFLOPS", "fastest peer", "its us", "ratio")
    found = [(line.row, line.states[1]) for line in lines if len(line.states) > 1]
    rows = [
        (
            f"`{row}`",
            f"{state.us:.2f}",
            f"{_tflops(row, state.us):.0f}",
            state.peers[0].peer,
            f"{state.peers[0].us:.2f}",
            str(state.peers[0]),
        )
        for row, state in found
    ]
    return table(heads, rows)


def every_peer(lines: Sequence[Line]) -> list[str]:
    """A column for each peer."""
    names = list(dict.fromkeys(peer.peer for line in lines for peer in line.states[0].peers))
    names.sort(key=[*NAMES.values(), BRIDGED].index)
    heads = ("row", "ours", *names, "SM clock MHz")
    rows = []
    for line in lines:
        by_name = {peer.peer: f"{peer.us:.2f}" for peer in line.states[0].peers}
        clock = line.record["timings"][line.record["ours"]["id"]][0]["sm_clock_mhz"]
        times = [by_name.get(name, "-") for name in names]
        rows.append((f"`{line.row}`", f"{line.states[0].us:.2f}", *times, str(clock or "-")))
    return table(heads, rows)


def kernels(lines: Sequence[Line]) -> list[str]:
    """The genome of each row."""
    heads = ("row", "genome", "from", "values")
    rows = []
    for line in lines:
        ours = line.record["ours"]
        values = " ".join(f"{name}={word_of(value)}" for name, value in ours["values"].items())
        genome = f"{ours['family']} {ours['version']}, {ours['id']}"
        rows.append((f"`{line.row}`", genome, ours["source"], f"`{values}`"))
    return table(heads, rows)


def missing(rows: Mapping[str, Mapping[str, Any]], lines: Sequence[Line]) -> list[str]:
    """Rows without figures, and peers that a row lacks; each with its reason."""
    done = {line.row for line in lines}
    said = [f"- `{row}`: not measured" for row in ROWS if row not in rows]
    said += [
        f"- `{row}`: {each.get('failure') or 'no peer was right'}"
        for row, each in rows.items()
        if row not in done
    ]
    reasons: dict[str, list[str]] = {}
    for row, each in rows.items():
        for name, why in {**each.get("absent", {}), **each.get("wrong", {})}.items():
            reasons.setdefault(f"{NAMES.get(name, name)}: {why}", []).append(f"`{row}`")
    said += [f"- {reason} ({', '.join(where)})" for reason, where in reasons.items()]
    return said or ["Nothing."]


def how(record: Mapping[str, Any]) -> list[str]:
    """What the figures were measured with."""
    libraries: dict[str, None] = {}
    counts = record["rounds"]
    for row in record["rows"]:
        for name, known in row.get("environment", {}).items():
            versions = [f"{key} {value}" for key, value in known.items() if key not in _SETTINGS]
            libraries[f"{NAMES.get(name, name)}: {', '.join(versions)}"] = None
    return [
        f"{record['gpu']}, driver {record['driver']}, NVRTC {record['nvrtc']}, {record['date']}, evoflash "
        f"{record['evoflash']}, {record['took_s']:.0f} s, seed {record['seed']}, by `{record['command']}`. "
        f"{record['protocol']}. Samples a contender: {counts['steady']} cold, {counts['boost']} at boost "
        f"clock, {counts['sustained']} under the power cap. Where there are several commands, a row's "
        "figures are all of one of them.",
        "",
        *(f"- {each}" for each in libraries),
    ]


_SETTINGS = ("setting", "tried", "layout", "grouped_heads")  # they differ from row to row


# ---- the files


# ---- what the README says of it

_DIGEST_HEADS = ("rows", "fastest peer's time over ours, geometric mean", "the least", "target", "met")
_KINDS = {  # by their target, and what it is about
    1.25: ("up to 512 queries", "1.25 each"),
    1.05: ("head dimension 64, from 1k", "1.05 each"),
    1.00: ("head dimension 128", "1.00 each"),
    0.97: ("decoding, 8k", "reads at 0.97 of the bandwidth"),
}


def digest(record: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with a row for each kind of row: how many, their mean, the least ratio, targets met."""
    found = [line_of(row, known.get(row["row"], {})) for row in record["rows"]]
    lines = [line for line in found if line]
    rows = []
    for aim, (name, words) in _KINDS.items():
        if chosen := [line for line in lines if target(line.row) == aim]:
            rows.append(_digested(name, words, chosen))
    return (
        "\n".join(table(_DIGEST_HEADS, [*rows, _digested("all", f"{MEAN_TARGET} in the mean", lines)])) + "\n"
    )


def _digested(name: str, aim: str, lines: Sequence[Line]) -> list[str]:
    lowest = least(lines)
    best = lowest.states[0].peers[0]
    met = sum(line.is_met == "yes" for line in lines)
    worst = f"{best.ratio:.3f} (`{lowest.row}`, {best.peer})"
    return [f"{name} ({len(lines)})", f"{mean(lines):.3f}", worst, aim, f"{met} of {len(lines)}"]


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="is the page stale?")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], help="files of scripts/peers/run.py")
    parser.add_argument("--folder", type=Path, default=RECORD.parent, help="of the records")
    parser.add_argument("--page", type=Path, default=PAGE)
    return parser.parse_args()


def main() -> int:
    """Write, or with --check compare."""
    args = arguments()
    record = stored(args.folder / RECORD.name)
    if args.merge:
        parts = [read_record(path) for path in args.merge]
        write_record(record, merged(parts))
    fresh = fresh_page(args.folder)
    return keep(args.page, fresh, made_by="scripts.pages.h200", is_check=args.check)


def fresh_page(folder: Path) -> str:
    """The page as the records in the folder make it."""
    return page(read_record(folder / RECORD.name), anchors())


if __name__ == "__main__":
    sys.exit(main())
