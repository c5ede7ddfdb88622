"""The report's middle sections, on what values are worth and why the winner won. Computes nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from evoflash.views.html import charts
from evoflash.views.html import charts as bars
from evoflash.views.html.markup import Cell, Figures, HtmlColumn, escape, note, paragraphs, sorting, table

Json = Mapping[str, Any]
_EFFECTS = 14  # of the surest ones that are drawn; the table has all


def learnt(record: Json, figures: Figures) -> str:
    """Effects of values with their intervals, values that always fail, and both in sentences."""
    effects = record["effects"]
    if not effects and not record["learnt"]:
        return note("No gene has two values with times: nothing is known of their effects.")
    known = [
        each for each in effects if each["high"] is not None and each["low"] is not None and each["low"] > 0
    ]
    surest = sorted(known, key=lambda each: min(each["high"], 1 / each["low"]))[:_EFFECTS]
    drawn = [
        bars.Span(
            f"{each['gene']} = {each['value']}",
            each["ratio"],
            each["low"],
            each["high"],
            f"{each['family']}, {each['ratio']:.3f} of the time of other values",
            each["family"],
        )
        for each in sorted(surest, key=lambda each: (each["family"], each["ratio"]))
    ]
    label = (
        f"Time with a value over time without it, 95 % intervals, the {len(drawn)} surest of {len(effects)}"
    )
    chart = bars.spans(drawn, label, names=("faster with it", "slower")) if drawn else ""
    said = "".join(
        f"<li>{escape(line.strip())}</li>" if line.startswith("  ") else f"</ul><p>{escape(line)}</p><ul>"
        for line in record["learnt"]
    )
    head = note(f"{label}." if drawn else "Too few kernels have times for an interval.")
    words = f"<ul>{said}</ul>".replace("<ul></ul>", "")
    sentences = f"<details><summary>In sentences</summary>{words}</details>" if words else ""
    every = f"<details><summary>All {len(effects)} effects</summary>{_effects(effects, figures)}</details>"
    return f"{chart}{head}{sentences}{every}"


def _effects(effects: Sequence[Json], figures: Figures) -> str:
    names = ("family", "gene", "value", "ratio", "95 % interval", "n", "compared with")
    columns = [HtmlColumn(name, is_number=name in ("ratio", "95 % interval", "n")) for name in names]
    rows = [
        (
            Cell(escape(each["family"])),
            Cell(escape(each["gene"])),
            Cell(escape(str(each["value"]))),
            Cell(figures.times(each["ratio"]), each["ratio"]),
            Cell(_span(each, figures), each["low"] if each["high"] is not None else ""),
            Cell(figures.exact(each["n"]), each["n"]),
            Cell("kernels that differ in this gene alone" if each["is_paired"] else "all other kernels"),
        )
        for each in effects
    ]
    return table(
        columns, rows, caption="Time with a value over time without it", attributes=' class="sortable"'
    )


def _span(each: Json, figures: Figures) -> str:
    if each["high"] is None:
        return "too few"
    return f"{figures.times(each['low'])} to {figures.times(each['high'])}"


# ---- the lineage


def lineage(record: Json, figures: Figures) -> str:
    """The winner's way, and why it won."""
    found = record["lineage"]
    if not found["hops"]:
        return note("There is no winner, and so no lineage.")
    again = any(hop["again_us"] for hop in found["hops"])
    names = [
        "hop",
        "kernel",
        "operator",
        "us",
        "change",
        *(["again us", "again, interval", "it is"] if again else []),
    ]
    columns = [
        HtmlColumn(name, is_number=name in ("hop", "us", "change", "again us", "again, interval"))
        for name in names
    ]
    columns += [HtmlColumn("genes that changed"), HtmlColumn("bound")]
    rows = [_hop(at, hop, figures, again=again) for at, hop in enumerate(found["hops"])]
    shown = table(columns, rows, caption="The winner's ancestors, each the fastest parent of the next")
    return (
        f"{paragraphs(found['says'])}{charts.hops(found['hops'], figures.mark)}"
        f"{note(found['retimed'])}{shown}{_neighbours(found['neighbours'], figures)}"
    )


def _hop(at: int, hop: Json, figures: Figures, *, again: bool) -> list[Cell]:
    genes = "<br>".join(
        f"{escape(gene)} {escape(_word(old))} &rarr; {escape(_word(new))}" for gene, old, new in hop["genes"]
    )
    measured = Figures("")
    interval = (
        f"{measured.times(hop['again_low'])} to {measured.times(hop['again_high'])}"
        if hop["again_low"]
        else ""
    )
    return [
        Cell(str(at)),
        Cell(f"<code>{escape(hop['id'])}</code>"),
        Cell(escape(hop["operator"])),
        Cell(figures.us(hop["us"])),
        Cell(figures.change(hop["change"])),
        *(
            [Cell(measured.us(hop["again_us"])), Cell(interval), Cell(escape(hop["again_answer"]))]
            if again
            else []
        ),
        Cell(genes),
        Cell(escape(hop["bound"])),
    ]


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def _neighbours(near: Sequence[Json], figures: Figures) -> str:
    if not near:
        return ""
    names = ("gene", "winner", "instead", "us", "over best", "status", "kernel")
    columns = [HtmlColumn(name, is_number=name in ("us", "over best")) for name in names]
    rows = [
        (
            Cell(escape(each["gene"])),
            Cell(escape(str(each["best_value"]))),
            Cell(escape(str(each["value"]))),
            Cell(figures.us(each["us"]), sorting(each["us"])),
            Cell(figures.change(each["over_best"]), sorting(each["over_best"])),
            Cell(escape(each["status"])),
            Cell(f"<code>{escape(each['id'])}</code>"),
        )
        for each in near
    ]
    caption = "Candidates that differ from the winner in one gene alone"
    shown = table(columns, rows, caption=caption, attributes=' class="sortable"')
    return f"<h3>What each value is worth</h3>{shown}"
