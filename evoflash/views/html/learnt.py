"""The report's middle sections, on what values are worth and why the winner won. Computes nothing."""

from collections.abc import Mapping, Sequence
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
    table,
    text_column,
)

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
    """The winner's way, and why it won."""
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
