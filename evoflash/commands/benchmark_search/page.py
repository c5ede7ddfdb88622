"""A benchmark as one HTML page that needs no other file, in light and dark. Computes nothing."""

from collections.abc import Sequence
from html import escape

from evoflash.commands.benchmark_search import plots
from evoflash.commands.benchmark_search.record import Made, overall
from evoflash.commands.benchmark_search.report import cells, legend
from evoflash.replay.benchmark import Row, Space

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #6a737d; --rule: #d8dee4;
  --main: #0b62c4; --other: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --soft: #9aa4af;
  --rule: #30363d; --main: #6cb6ff; --other: #ff9b6a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2em auto;
  max-width: 1020px; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2.2em; } h3 { font-size: 1em; margin: 0 0 .2em; }
code { font: .9em ui-monospace, monospace; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } tr.reference td { font-weight: 600; }
.grid-of-plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(290px, 1fr)); gap: 1.2em; }
svg { width: 100%; height: auto; } svg.all { max-width: 760px; }
svg .grid { stroke: var(--rule); } svg .tick { fill: var(--soft); font-size: 10px; }
svg .name { fill: var(--ink); font-size: 12px; } svg .band { fill: var(--main); opacity: .22; }
svg polyline { fill: none; stroke-width: 2; } svg .median { stroke: var(--main); }
svg .reference { stroke: var(--other); stroke-dasharray: 5 3; }
svg .random { stroke: var(--soft); stroke-dasharray: 2 3; }
svg .seed { fill: var(--soft); opacity: .45; } svg .interval { stroke: var(--main); stroke-width: 3; }
svg .mean { fill: var(--main); } .soft { color: var(--soft); }
"""
_COLUMNS = ("mean P", "median P", "below 0", "within 5 %", "CPU ms", "p", "95 % of mean P", "best", "after")


def html(spaces: Sequence[Space], how: Made) -> str:
    """The whole page."""
    means = ", ".join(f"{escape(name)} {mean:+.2f}" for name, mean in overall(spaces))
    parts = [
        "<h1>Search strategies on recorded spaces</h1>",
        f"<p>{escape(legend(spaces, how))} Best is the median time of the best over the optimum at the end, "
        "after: the median number of evaluations to come within 5 % of the optimum.</p>",
        f"<p>Mean of mean P over {len(spaces)} spaces: {means}.</p>" if len(spaces) > 1 else "",
        *(_section(space, how) for space in spaces),
        f'<p class="soft">Made by <code>{escape(how.command)}</code>, {how.date}, evoflash '
        f"{escape(how.version)}; {escape(', '.join(how.machine.values()))}.</p>",
    ]
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    name = "<title>evoflash benchmark-search</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}{name}<style>{_STYLE}</style></head>\n<body>'
        + "\n".join(parts)
        + "</body></html>\n"
    )


def _section(space: Space, how: Made) -> str:
    reference = next((row for row in space.rows if row.name == how.reference), None)
    charts = "\n".join(
        f"<div><h3>{escape(row.name)}</h3>{plots.curves(space, row, reference)}</div>" for row in space.rows
    )
    return (
        f"<h2>{escape(space.title)}</h2>{_table(space, how)}"
        "<p>Each dot is P of one seed; the large dot is the mean, the bar its 95 % interval.</p>"
        '<div class="wide">'
        f"{plots.scores(space).replace('<svg ', '<svg class=all ', 1)}</div>"
        "<p>Best so far: median of the seeds with their quartiles; dashed the median of "
        f"{escape(how.reference)}, dotted what random search is expected to have.</p>"
        f'<div class="grid-of-plots">{charts}</div>'
    )


def _table(space: Space, how: Made) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("strategy", *_COLUMNS))
    rows = "".join(_row(row, how) for row in space.rows)
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'


def _row(row: Row, how: Made) -> str:
    where = row.standing
    more = (
        f"{where.score_low:+.2f} to {where.score_high:+.2f}",
        f"{where.best_over_optimum:.3f}",
        "never" if where.near_after is None else str(where.near_after),
    )
    kind = ' class="reference"' if row.name == how.reference else ""
    words = "".join(f"<td>{escape(word)}</td>" for word in (*cells(row), *more))
    return f"<tr{kind}>{words}</tr>"
