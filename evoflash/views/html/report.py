"""A report's record as one HTML page. Computes nothing, and asks neither a database nor the network.

The policy in its head lets a browser load nothing at all.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evoflash.app.catalogue import problem_and_name
from evoflash.views.html import details, sections
from evoflash.views.html import sections as learnt
from evoflash.views.html import svg as palette
from evoflash.views.html.markup import Figures, escape

Json = Mapping[str, Any]
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_HERE = Path(__file__).parent


def html(record: Json) -> str:
    """The whole page, from what `record.as_json` wrote."""
    run, figures = record["run"], Figures("~" if record["run"]["is_estimate"] else "")
    title = f"{problem_and_name(run['problem'])} on {run['gpu']}"
    parts = _sections(record, figures)
    links = "".join(f'<a href="#{key}">{escape(name)}</a>' for key, name, _ in parts)
    body = "".join(
        f'<section id="{key}"><h2>{escape(name)}</h2>{made}</section>' for key, name, made in parts
    )
    return document(
        title,
        f'{_about(record)}<nav aria-label="Sections">{links}</nav>\n<main>{body}</main>\n'
        f'<footer><p class="soft">Made by evoflash {escape(record["made_by"])}, {escape(record["made"])}.'
        ' <button id="save" class="plain" type="button" hidden>'
        "Save the numbers as JSON</button></p></footer>\n"
        f'<script type="application/json" id="record">{_json_for_script(record)}</script>',
    )


def document(title: str, body: str) -> str:
    """A page with the style and the script of all of them."""
    return (
        f'<!doctype html>\n<html lang="en"><head>{_head(title)}</head>\n<body>'
        f"<h1>{escape(title)}</h1>{body}<script>{_asset('page.js')}</script></body></html>\n"
    )


def _sections(record: Json, figures: Figures) -> list[tuple[str, str, str]]:
    looks = palette.looks(row["family"] for row in record["candidates"])
    made: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("verdict", "Verdict", lambda: sections.verdict(record, figures)),
        ("progress", "Best so far", lambda: sections.progress(record, figures)),
        ("all", "Every candidate", lambda: sections.candidates(record, figures, looks)),
        ("genes", "What values are worth", lambda: learnt.learnt(record, figures)),
        ("model", "Language model", lambda: learnt.language_model(record, figures)),
        ("lineage", "Why it won", lambda: learnt.lineage(record, figures)),
        ("fronts", "Pareto fronts", lambda: sections.fronts(record, figures, looks)),
        ("floors", "Roofline and floors", lambda: details.floors(record, figures)),
        ("rejections", "Rejections by rung", lambda: details.rejections(record, figures)),
        ("peers", "Libraries", lambda: details.peers(record, figures)),
        ("source", "Source and checks", lambda: details.kernel(record, figures)),
        ("origin", "Environment and cost", lambda: details.origin(record, figures)),
    )
    return [(key, name, write()) for key, name, write in made]


def _head(title: str) -> str:
    return (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>evoflash: {escape(title)}</title>"
        f"<style>{_asset('style.css')}{details.source_styles()}</style>"
    )


def _about(record: Json) -> str:
    run = record["run"]
    name = f" '{run['name']}'" if run["name"] else ""
    budget = f" of {run['budget']}" if run["budget"] else ""
    said = (
        f"Run {run['id']}{name}: {run['strategy']}, seed {run['seed']}; "
        f"{run['evaluated']}{budget} evaluated, {run['state']}. Times are {run['times']}."
    )
    marked = ""
    if run["is_estimate"]:
        marked = (
            '<p class="mark-estimate">Every figure with a <b>~</b> goes back to a performance model\'s '
            "estimate: no GPU has run these kernels here.</p>"
        )
    if run["state"] == "stopped":
        what = "It was stopped before it had spent its budget" if run["budget"] else "It was stopped"
        more = f"<p>{what}; <code>{escape(run['command'])}</code> continues it.</p>"
        marked = more + marked
    return f"<p>{escape(said)}</p>{marked}"


def _json_for_script(record: Json) -> str:
    # "</script" in a kernel's text must not end the element.
    return json.dumps(record, separators=(",", ":")).replace("<", "\\u003c")


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
