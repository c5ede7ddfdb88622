"""The report's first sections: the winner, the progress, every candidate, what values are worth, the lineage.

Computes nothing.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from evoflash.views.html import charts
from evoflash.views.html.markup import (
    Figures,
    HtmlColumn,
    code_column,
    escape,
    figure_column,
    note,
    number_column,
    paragraphs,
    sorting,
    table,
    text_column,
)
from evoflash.views.html.svg import Look, cross, path

Json = Mapping[str, Any]


def verdict(record: Json, figures: Figures) -> str:
    """The winner in a few large figures and sentences, its values, and its pairs."""
    found, run = record["verdict"], record["run"]
    if found is None:
        return paragraphs([f"No kernel was correct in {run['evaluated']} evaluations: there is no winner."])
    tiles = [
        (Figures("").us(found["measured_us"], unit=" us"), "measured, in the archive"),
        (figures.us(found["us"], unit=" us"), run["times"]),
        (_interval(found, figures), f"p10 to p90 of {found['n']} samples, {found['protocol']}"),
        (_likely(found, figures), "likely: nine of ten kernels of its estimate"),
        (figures.times(found["over_seed"]), "the speed of the fastest seed"),
        (figures.rate(found["tflops"]), "TFLOPS, as the field counts them"),
        (_tie_count(found, figures), "others cannot be told apart from it"),
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


def _tie_count(found: Json, figures: Figures) -> str:
    """Nothing where none is known but nobody knows either how far apart two estimates have to be."""
    return figures.exact(len(found["ties"])) if found["ties"] or found["has_known_error"] else ""


def _interval(found: Json, figures: Figures) -> str:
    if found["p10_us"] is None or found["p90_us"] is None:
        return ""
    return figures.spread(found)


def _likely(found: Json, figures: Figures) -> str:
    if not found["likely_us"]:
        return ""
    low, high = found["likely_us"]
    return f"{figures.us(low)} to {figures.us(high, unit=' us')}"


def _ties(found: Json, figures: Figures) -> str:
    if not found["ties"]:
        return ""
    columns = (
        code_column("kernel"),
        text_column("family"),
        figure_column("us", figures.us, "us"),
        text_column("status"),
    )
    return table(columns, found["ties"], caption="Kernels that cannot be told apart from the winner")


def _pairs(found: Json, figures: Figures) -> str:
    if not found["pairs"]:
        return ""
    drawn = [
        charts.Span(
            pair["other"], pair["ratio"], pair["low"], pair["high"], f"{pair['ratio']:.3f}, {pair['answer']}"
        )
        for pair in found["pairs"]
    ]
    columns = (
        text_column("other"),
        text_column("workload"),
        figure_column("winner over it", figures.times, "ratio", sorts=True),
        number_column("interval", figures.interval, itemgetter("low")),
        figure_column("n", figures.exact, "n", sorts=True),
        text_column("the winner is", "answer"),
    )
    sure = f"{found['pairs'][0]['confidence']:.1%} intervals"
    label = f"The winner's time over others', timed in turns, with {sure}"
    chart = charts.spans(drawn, label, names=("the winner is faster", "slower"))
    return f"<h3>Timed in turns</h3>{chart}{table(columns, found['pairs'], caption=label)}"


# ---- progress


def progress(record: Json, figures: Figures) -> str:
    """The best so far; its table has each improvement."""
    found = record["progress"]
    columns = (
        figure_column("evaluations", figures.exact, "evaluations"),
        figure_column("best us", figures.us, "us"),
        code_column("kernel"),
    )
    each = table(columns, found["best"], caption="Each improvement") if found["best"] else ""
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
    is_known = any(row["measured_us"] for row in rows)
    measured = (figure_column("measured us", Figures("").us, "measured_us", sorts=True),) if is_known else ()
    columns = (
        figure_column("#", figures.exact, "n", sorts=True),
        code_column("kernel"),
        text_column("family"),
        number_column("us", lambda row: _time(row, figures), lambda row: sorting(row["us"])),
        *measured,
        figure_column("over best", figures.times, "over_best", sorts=True),
        *map(text_column, ("status", "rung", "operator")),
        figure_column("regs", figures.exact, "registers", sorts=True),
        figure_column("spills", figures.exact, "spill_bytes", sorts=True),
        text_column("bound"),
        HtmlColumn("reason", lambda row: escape(_duplicate(row) or row["reason"])),
    )
    winner = record["verdict"]["id"] if record["verdict"] else ""
    shown = table(
        columns,
        rows,
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


def _time(row: Json, figures: Figures) -> str:
    bound = "&ge; " if row["is_lower_bound"] else ""
    return bound + figures.us(row["us"]) if row["us"] else ""


def _duplicate(row: Json) -> str:
    return f"duplicate of {row['duplicate_of']}" if row["duplicate_of"] else ""


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
    columns = (
        code_column("kernel"),
        text_column("family"),
        number_column("us", lambda row: figures.us(row["figures"][0]), lambda row: row["figures"][0]),
        number_column(
            found["units"][1], lambda row: figures.exact(row["figures"][1]), lambda row: row["figures"][1]
        ),
    )
    caption = f"Kernels that no other is as good as in {first} and {second} and better in one"
    chart = charts.front(found, looks, figures.mark)
    points = table(columns, found["points"], caption=caption)
    return f"<h3>{escape(first)} against {escape(second)}</h3>{chart}{points}"


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
        charts.Span(
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
    chart = charts.spans(drawn, label, names=("faster with it", "slower")) if drawn else ""
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
    columns = (
        *map(text_column, ("family", "gene", "value")),
        figure_column("ratio", figures.times, "ratio", sorts=True),
        number_column(
            "95 % interval",
            lambda each: _no_interval(each) if each["high"] is None else figures.interval(each),
            lambda each: "" if each["high"] is None else each["low"],
        ),
        figure_column("n", figures.exact, "n", sorts=True),
        HtmlColumn("compared with", _others),
    )
    caption = "Time with a value over time without it"
    return table(columns, effects, caption=caption, attributes=' class="sortable"')


def _no_interval(each: Json) -> str:
    return "too few" if each["is_paired"] else "not paired"


def _others(each: Json) -> str:
    return "kernels that differ in this gene alone" if each["is_paired"] else "all other kernels"


def language_model(record: Json, figures: Figures) -> str:
    """What a language model's edits came to, beside as many random ones."""
    found = record["language_model"]
    if found is None:
        return note("No language model was asked.")
    arms = [{"arm": name, **found[name]} for name in ("model", "control") if found[name]]
    columns = (
        text_column("edits of the", "arm"),
        *(figure_column(name, figures.exact, name) for name in ("uses", "correct", "faster")),
        figure_column("best us", figures.us, "best_us"),
        code_column("best kernel", "best_id"),
    )
    caption = "Kernels of the model, and of random edits of the same sizes of the same parents"
    shown = table(columns, arms, caption=caption) if arms else ""
    return paragraphs(record["language_model_says"]) + shown


# ---- the lineage


def lineage(record: Json, figures: Figures) -> str:
    found = record["lineage"]
    if not found["hops"]:
        return note("There is no winner, and so no lineage.")
    again = any(hop["again_us"] for hop in found["hops"])
    measured = Figures("")
    columns = (
        number_column("hop", lambda hop: str(hop["at"])),
        code_column("kernel"),
        text_column("operator"),
        figure_column("us", figures.us, "us"),
        figure_column("change", figures.change, "change"),
        *(
            (
                figure_column("again us", measured.us, "again_us"),
                number_column("again, interval", lambda hop: _again(hop, measured)),
                text_column("it is", "again_answer"),
            )
            if again
            else ()
        ),
        HtmlColumn("genes that changed", _genes),
        text_column("bound"),
    )
    hops = [{"at": at, **hop} for at, hop in enumerate(found["hops"])]
    shown = table(columns, hops, caption="The winner's ancestors, each the fastest parent of the next")
    return (
        f"{paragraphs(found['says'])}{charts.hops(found['hops'], figures.mark)}"
        f"{note(found['retimed'])}{shown}{_neighbours(found['neighbours'], figures)}"
    )


def _again(hop: Json, figures: Figures) -> str:
    if not hop["again_low"]:
        return ""
    return f"{figures.times(hop['again_low'])} to {figures.times(hop['again_high'])}"


def _genes(hop: Json) -> str:
    return "<br>".join(
        f"{escape(gene)} {escape(_word(old))} &rarr; {escape(_word(new))}" for gene, old, new in hop["genes"]
    )


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def _neighbours(near: Sequence[Json], figures: Figures) -> str:
    if not near:
        return ""
    columns = (
        text_column("gene"),
        text_column("winner", "best_value"),
        text_column("instead", "value"),
        figure_column("us", figures.us, "us", sorts=True),
        figure_column("over best", figures.change, "over_best", sorts=True),
        text_column("status"),
        code_column("kernel"),
    )
    caption = "Candidates that differ from the winner in one gene alone"
    shown = table(columns, near, caption=caption, attributes=' class="sortable"')
    return f"<h3>What each value is worth</h3>{shown}"
