"""The report's first sections, on the winner, the progress and every candidate. Computes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from evoflash.views.html import charts
from evoflash.views.html import charts as bars
from evoflash.views.html.markup import Cell, Figures, HtmlColumn, escape, note, paragraphs, sorting, table
from evoflash.views.html.svg import Look, cross, path

Json = Mapping[str, Any]


def verdict(record: Json, figures: Figures) -> str:
    """The winner in a few large figures and sentences, its values, and its pairs."""
    found, run = record["verdict"], record["run"]
    if found is None:
        return paragraphs([f"No kernel was correct in {run['evaluated']} evaluations: there is no winner."])
    tiles = [
        (figures.us(found["us"], unit=" us"), run["times"]),
        (_interval(found, figures), f"p10 to p90 of {found['n']} samples, {found['protocol']}"),
        (figures.times(found["over_seed"]), "times as fast as the fastest seed"),
        (figures.rate(found["tflops"]), "TFLOPS, as the field counts them"),
        (figures.exact(len(found["ties"])), "others cannot be told apart from it"),
        (f"{figures.exact(run['evaluated'])}", f"evaluated, {run['correct']} of them correct"),
    ]
    boxes = "".join(
        f'<div class="tile"><b>{value}</b><span>{escape(words)}</span></div>'
        for value, words in tiles
        if value
    )
    winner = f"<p>The winner is <code>{escape(found['id'])}</code>, family {escape(found['family'])}.</p>"
    values = " ".join(f"{name}={value}" for name, value in found["values"].items())
    return (
        f'<div class="tiles">{boxes}</div>{winner}{paragraphs(found["says"])}'
        f"<details><summary>Its values</summary><p><code>{escape(values)}</code></p></details>"
        f"{_ties(found, figures)}{_pairs(found, figures)}"
    )


def _interval(found: Json, figures: Figures) -> str:
    if found["p10_us"] is None or found["p90_us"] is None:
        return ""
    return f"{figures.us(found['p10_us'])} to {figures.us(found['p90_us'])}"


def _ties(found: Json, figures: Figures) -> str:
    rows = [
        (Cell(f"<code>{escape(tie['id'])}</code>"), Cell(escape(tie["family"])), Cell(figures.us(tie["us"])))
        for tie in found["ties"]
    ]
    columns = (HtmlColumn("kernel"), HtmlColumn("family"), HtmlColumn("us", is_number=True))
    return table(columns, rows, caption="Kernels that cannot be told apart from the winner") if rows else ""


def _pairs(found: Json, figures: Figures) -> str:
    if not found["pairs"]:
        return ""
    drawn = [
        bars.Span(
            pair["other"], pair["ratio"], pair["low"], pair["high"], f"{pair['ratio']:.3f}, {pair['answer']}"
        )
        for pair in found["pairs"]
    ]
    rows = [
        (
            Cell(escape(pair["other"])),
            Cell(escape(pair["workload"])),
            Cell(figures.times(pair["ratio"]), pair["ratio"]),
            Cell(f"{figures.times(pair['low'])} to {figures.times(pair['high'])}", pair["low"]),
            Cell(figures.exact(pair["n"]), pair["n"]),
            Cell(escape(pair["answer"])),
        )
        for pair in found["pairs"]
    ]
    names = ("other", "workload", "winner over it", "interval", "n", "the winner is")
    columns = [HtmlColumn(name, is_number=name in ("winner over it", "interval", "n")) for name in names]
    sure = f"{found['pairs'][0]['confidence']:.1%} intervals"
    label = f"The winner's time over others', timed in turns, with {sure}"
    chart = bars.spans(drawn, label, names=("the winner is faster", "slower"))
    return f"<h3>Timed in turns</h3>{chart}{table(columns, rows, caption=label)}"


# ---- progress


def progress(record: Json, figures: Figures) -> str:
    """The best so far; its table has each improvement."""
    found = record["progress"]
    rows = [
        (
            Cell(figures.exact(point["evaluations"])),
            Cell(figures.us(point["us"])),
            Cell(f"<code>{escape(point['id'])}</code>"),
        )
        for point in found["best"]
    ]
    columns = (
        HtmlColumn("evaluations", is_number=True),
        HtmlColumn("best us", is_number=True),
        HtmlColumn("kernel"),
    )
    each = table(columns, rows, caption="Each improvement") if rows else ""
    random = "".join(_random(run, figures) for run in found["random"])
    return (
        f"{charts.progress(found, figures.mark)}{_curves(found)}{paragraphs(found['says'])}{random}"
        f"<details><summary>Improvements as a table</summary>{each}</details>"
    )


def _curves(found: Json) -> str:
    kinds = [("best", "this run")]
    kinds += [("seed", "the fastest seed")] if found["seed_us"] else []
    kinds += [("random", "random search")] if found["random"] else []
    return _legend([(f'<path class="curve {kind}" d="M0 7H22"/>', words) for kind, words in kinds])


def _random(run: Json, figures: Figures) -> str:
    last = run["best"][-1]["us"] if run["best"] else None
    best = f": best {figures.us(last, unit=' us')}" if last else ": no correct kernel"
    count = figures.exact(run["evaluated"])
    return (
        f'<p class="soft">Random search, run {run["run"]}, seed {run["seed"]}, {count} evaluated{best}.</p>'
    )


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li><svg viewBox="0 0 22 14" aria-hidden="true">{drawn}</svg> {escape(words)}</li>'
        for drawn, words in entries
    )
    return f'<ul class="legend">{items}</ul>'


# ---- every candidate


def candidates(record: Json, figures: Figures, looks: Mapping[str, Look]) -> str:
    """A chart and a table that is sorted and filtered where JavaScript is on."""
    rows = record["candidates"]
    entries = [
        (f'<path class="{look.colour}" d="{path(look.shape, 11, 7, 4)}"/>', name)
        for name, look in looks.items()
    ]
    if any(row["status"] == "screened" or row["duplicate_of"] for row in rows):
        entries.append(
            (f'<path class="c0 hollow" d="{path("circle", 11, 7, 4)}"/>', "hollow: screened or a duplicate")
        )
    if any(row["us"] is None for row in rows):
        entries.append((f'<path class="failed" d="{cross(11, 7, 4)}"/>', "failed"))
    names = (
        "#",
        "kernel",
        "family",
        "us",
        "over best",
        "status",
        "rung",
        "operator",
        "regs",
        "spills",
        "bound",
        "reason",
    )
    numbers = ("#", "us", "over best", "regs", "spills")
    columns = [HtmlColumn(name, is_number=name in numbers) for name in names]
    winner = record["verdict"]["id"] if record["verdict"] else ""
    shown = table(
        columns,
        [_candidate(row, figures) for row in rows],
        caption=f"Every proposal, {len(rows)} of them, in their order",
        attributes=' id="candidates" class="sortable"',
        row_attributes=[_attributes(row, winner) for row in rows],
    )
    tall = shown.replace('class="scroll"', 'class="scroll tall"', 1)
    return f"{charts.candidates(rows, looks, figures.mark)}{_legend(entries)}{_controls(rows)}{tall}"


def _attributes(row: Json, winner: str) -> str:
    kind = ' class="winner"' if row["id"] == winner else ""
    status = "duplicate" if row["duplicate_of"] else row["status"]
    return f'{kind} data-id="{row["id"]}" data-family="{escape(row["family"])}" data-status="{status}"'


def _candidate(row: Json, figures: Figures) -> list[Cell]:
    said = f"duplicate of {row['duplicate_of']}" if row["duplicate_of"] else row["reason"]
    bound = "&ge; " if row["is_lower_bound"] else ""
    return [
        Cell(figures.exact(row["n"]), row["n"]),
        Cell(f"<code>{escape(row['id'])}</code>"),
        Cell(escape(row["family"])),
        Cell(bound + figures.us(row["us"]) if row["us"] else "", sorting(row["us"])),
        Cell(figures.times(row["over_best"]), sorting(row["over_best"])),
        Cell(escape(row["status"])),
        Cell(escape(row["rung"])),
        Cell(escape(row["operator"])),
        Cell(figures.exact(row["registers"]), sorting(row["registers"])),
        Cell(figures.exact(row["spill_bytes"]), sorting(row["spill_bytes"])),
        Cell(escape(row["bound"])),
        Cell(escape(said)),
    ]


def _controls(rows: Sequence[Json]) -> str:
    families = sorted({row["family"] for row in rows})
    statuses = sorted({"duplicate" if row["duplicate_of"] else row["status"] for row in rows})
    return (
        '<form id="filter" class="controls" hidden><label>words in a row<input name="words" type="search">'
        f"</label>{_select('family', families)}{_select('status', statuses)}"
        '<output aria-live="polite"></output></form>'
    )


def _select(name: str, values: Sequence[str]) -> str:
    options = "".join(f"<option>{escape(value)}</option>" for value in values)
    return f'<label>{name}<select name="{name}"><option value="">all</option>{options}</select></label>'


# ---- Pareto fronts


def fronts(record: Json, figures: Figures, looks: Mapping[str, Look]) -> str:
    """Time against another thing that one wants less of."""
    if not record["fronts"]:
        return note(
            "As far as known, the fastest kernel also has the fewest registers and spills, and the "
            "least error."
        )
    return "".join(_front(each, figures, looks) for each in record["fronts"])


def _front(found: Json, figures: Figures, looks: Mapping[str, Look]) -> str:
    first, second = found["objectives"]
    rows = [
        (
            Cell(f"<code>{escape(point['id'])}</code>"),
            Cell(escape(point["family"])),
            Cell(figures.us(point["figures"][0]), point["figures"][0]),
            Cell(figures.exact(point["figures"][1]), point["figures"][1]),
        )
        for point in found["points"]
    ]
    columns = (
        HtmlColumn("kernel"),
        HtmlColumn("family"),
        HtmlColumn("us", True),
        HtmlColumn(found["units"][1], True),
    )
    caption = f"Kernels that no other is as good as in {first} and {second} and better in one"
    chart = charts.front(found, looks, figures.mark)
    return f"<h3>{escape(first)} against {escape(second)}</h3>{chart}{table(columns, rows, caption=caption)}"
