"""The report's later sections, on floors, rejections, libraries, source, environment and cost.

Writes HTML alone, and computes nothing.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer

from evoflash.app.report.record import short
from evoflash.hardware_counters import STALLS, UNITS
from evoflash.views.html import charts
from evoflash.views.html.markup import (
    Figures,
    HtmlColumn,
    escape,
    figure_column,
    note,
    number_column,
    paragraphs,
    table,
    text_column,
)

Json = Mapping[str, Any]
SOURCE = "cuda"  # the CSS class that the source's colours are confined to


def floors(record: Json, figures: Figures) -> str:
    """A roofline for each workload, its floors, and the model's terms."""
    found = record["rooflines"]
    if not found:
        return note("There is no winner on a GPU and a problem of evoflash's own, and so no floor.")
    return "".join(_workload(each, figures, is_alone=len(found) == 1) for each in found)


def _workload(found: Json, figures: Figures, *, is_alone: bool) -> str:
    head = "" if is_alone else f"<h3>{escape(found['workload'])}</h3>"
    winner = next((point for point in found["points"] if point["kind"] == "winner"), None)
    exact = Figures("")
    columns = (
        text_column("unit", "name"),
        figure_column("floor, us", exact.us, "us"),
        figure_column("TFLOPS there", exact.rate, "tflops"),
        figure_column("of the winner's time", figures.share, "share"),
        text_column("what it counts", "says"),
    )
    drawn = [
        charts.Bar(f"{floor['name']} floor", floor["us"], f"{short(floor['us'])} us", "c2")
        for floor in found["floors"]
    ]
    if winner:
        drawn.append(charts.Bar("winner", winner["us"], f"{figures.mark}{short(winner['us'])} us"))
    facts = (
        f"{found['flops']:,} FLOPs and {found['bytes_moved']:,} bytes cannot be avoided: "
        f"{found['intensity']:.4g} FLOPs for each byte. Floors are at boost clock."
    )
    return (
        f"{head}{charts.roofline(found, figures.mark)}{paragraphs([facts])}"
        f"{charts.bars(drawn, 'Floors and the winner')}{table(columns, found['floors'], caption='Floors')}"
        f"{_counters(found)}{_points(found, figures)}{_terms(found, figures)}"
    )


_READ = "`evoflash profile` with the winner's id reads them on this GPU, where Nsight Compute is installed."


def _counters(found: Json) -> str:
    """Why the winner is as fast as it is and what would help: the GPU's word beside the model's."""
    guess = f"The model guesses that {found['guess']} binds it." if found["guess"] else ""
    if not found["counters"]:
        return (
            f"<h3>What binds it</h3>{paragraphs([f'{guess} Its hardware counters were not read. {_READ}'])}"
        )
    return f"<h3>What binds it</h3>{''.join(_launch(each, guess) for each in found['counters'])}"


def _launch(launch: Json, guess: str) -> str:
    figures, total = Figures(""), sum(launch["instructions"].values())
    units = [charts.Bar(UNITS[name], share, f"{share:.0%}", "c1") for name, share in launch["shares"].items()]
    rows = [
        *(("waits for", STALLS.get(name, name), share) for name, share in launch["stalls"].items()),
        *(("executes", name, count / total) for name, count in launch["instructions"].items()),
    ]
    columns = (
        HtmlColumn("what", lambda row: escape(row[0])),
        HtmlColumn("which", lambda row: escape(row[1])),
        number_column("share", lambda row: figures.share(row[2]), itemgetter(2)),
    )
    size = (
        f"{launch['kernel']}: {launch['grid']:,} blocks of {launch['block']} threads with "
        f"{launch['registers']} registers, {short(launch['us'])} us under Nsight Compute with cold caches, "
        f"at {launch['sm_ghz']:.2f} GHz."
    )
    said = [launch["says"], launch["remedy"], *([guess] if guess else []), size]
    caption = f"What warps wait for, and the instructions that they execute: {total:,}"
    folded = _details_element("waits and instructions", table(columns, rows, caption=caption))
    return f"{paragraphs(said)}{charts.bars(units, 'How busy the units are')}{folded}"


def _points(found: Json, figures: Figures) -> str:
    columns = (
        text_column("what", "kind"),
        text_column("name"),
        figure_column("us", figures.us, "us"),
        figure_column("TFLOPS", figures.rate, "tflops"),
    )
    caption = "Kernels on the roofline (star: winner, circle: seed, diamond: library)"
    return table(columns, found["points"], caption=caption)


def _terms(found: Json, figures: Figures) -> str:
    if not found["terms"]:
        return ""
    drawn = [charts.Bar(name, us, f"{figures.mark}{short(us)} us", "c3") for name, us in found["terms"]]
    words = (
        "The model's terms for the winner, each as if it alone bounded the kernel; they overlap, and do not "
        "add up."
    )
    columns = (
        HtmlColumn("term", lambda row: escape(row[0])),
        number_column("us", lambda row: figures.us(row[1])),
    )
    folded = _details_element("as a table", table(columns, found["terms"], caption="Terms"))
    return f"<h3>Terms of the model</h3>{note(words)}{charts.bars(drawn, 'Terms of the model')}{folded}"


def _details_element(words: str, html: str, kind: str = "") -> str:
    return f"<details{kind}><summary>{escape(words)}</summary>{html}</details>"


def rejections(record: Json, figures: Figures) -> str:
    """How far candidates came, and why they stopped."""
    reached, found = record["reached"], record["rejections"]
    drawn = [
        charts.Bar(
            each["rung"],
            each["reached"],
            _rung_words(each),
            "c2",
            each["rejected"],
        )
        for each in reached
    ]
    chart = (
        charts.bars(drawn, "Candidates that came to each rung") if reached and reached[0]["reached"] else ""
    )
    if not found:
        return chart + note(f"Nothing was rejected.{_screened_words(reached)}")
    columns = (
        text_column("rung"),
        text_column("status"),
        figure_column("count", figures.exact, "count", sorts=True),
        HtmlColumn("commonest reasons", _reasons),
    )
    left = note(_screened_words(reached).strip()) if _screened_words(reached) else ""
    return chart + left + table(columns, found, caption="Rejections by rung, the cheapest first")


def _rung_words(each: Json) -> str:
    rejected = f", {each['rejected']} rejected" if each["rejected"] else ""
    return f"{each['reached']}{rejected}" + (
        f", {each['screened']} too slow to be proven" if each["screened"] else ""
    )


def _screened_words(reached: Sequence[Json]) -> str:
    """What became of candidates that no rung rejected and that were not proven either."""
    count = sum(each["screened"] for each in reached)
    if not count:
        return ""
    return f" {count} were screened: too slow at a first look, and never on the rungs that prove a kernel."


def _reasons(each: Json) -> str:
    return "<br>".join(f"{count} x {escape(reason) or '(none)'}" for reason, count in each["reasons"])


def peers(record: Json, figures: Figures) -> str:
    found, best = record["peers"], record["verdict"]
    if not found:
        return note(
            "No library's kernel was timed in this run: that needs the GPU, and the libraries beside "
            "evoflash."
        )
    drawn = [charts.Bar(each["name"], each["us"], f"{short(each['us'])} us", "c1") for each in found]
    if best:
        drawn.insert(
            0, charts.Bar(f"{best['id']} (winner)", best["us"], f"{figures.mark}{short(best['us'])} us")
        )
    columns = (
        text_column("library", "name"),
        figure_column("us", figures.us, "us", sorts=True),
        number_column("p10 to p90", lambda each: figures.spread(each) if each["p10_us"] else ""),
        number_column(
            "over the winner's time", lambda each: figures.times(each["over_best"]), itemgetter("over_best")
        ),
        text_column("timed", "protocol"),
        HtmlColumn("versions", _versions),
    )
    chart = charts.bars(drawn, "Times of the libraries and of the winner")
    return chart + table(columns, found, caption="Libraries")


def _versions(each: Json) -> str:
    return escape(", ".join(f"{name} {text}" for name, text in each["versions"].items()))


def kernel(record: Json, figures: Figures) -> str:
    """The winner's checks, the emulator's findings, the source."""
    found = record["kernel"]
    if found is None:
        return note("There is no winner, and so no source.")
    failed = sum(not check["passed"] for check in found["checks"])
    shapes = len({check["workload"] for check in found["checks"]})
    words = f"{len(found['checks'])} checks on {shapes} shapes, {failed or 'none'} failed"
    export = [f"`{command}`" for command in found["export"]]
    return (
        f"{paragraphs([found['says'], words + '.' if found['checks'] else 'No check is stored.'])}"
        f"{_details_element('Every check', _checks(found['checks'], figures)) if found['checks'] else ''}"
        f"{paragraphs([found['emulated']])}{_findings(found['found'], figures)}"
        + "".join(_source(source, figures) for source in found["sources"])
        + paragraphs(["Export it with " + " or ".join(export) + "."] if export else [])
    )


def _checks(checks: Sequence[Json], figures: Figures) -> str:
    measures = {
        "rel. L2": "rel_l2",
        "max over RMS": "max_over_rms",
        "LSE error": "lse_error",
        "over an honest error": "honest_ratio",
    }
    columns = (
        text_column("workload"),
        HtmlColumn("passed", lambda check: "yes" if check["passed"] else "NO"),
        *(
            figure_column(name, figures.exact, field, sorts=True)
            for name, field in measures.items()
            if any(check[field] is not None for check in checks)
        ),
        text_column("reason"),
    )
    caption = "Outputs compared with the reference; the last ratio is over the error of a plain computation"
    return table(columns, checks, caption=caption, attributes=' class="sortable"')


def _findings(found: Sequence[Json], figures: Figures) -> str:
    if not found:
        return ""
    columns = (
        text_column("severity"),
        text_column("kind"),
        number_column("line", lambda each: figures.exact(each["line"]) if each["line"] else ""),
        text_column("what", "message"),
    )
    return table(columns, found, caption="What the emulator and the compilers found")


def _source(source: Json, figures: Figures) -> str:
    formatter = HtmlFormatter(cssclass=SOURCE, linenos="inline")
    build = [
        f"{figures.exact(source[name])} {words}"
        for name, words in (
            ("registers", "registers"),
            ("spill_bytes", "bytes spilled"),
            ("smem_static_bytes", "bytes of static shared memory"),
        )
        if source[name] is not None
    ]
    remarks = "".join(f"<p class=soft>{escape(remark)}</p>" for remark in source["remarks"])
    summary = f"{source['lines']} lines of CUDA for {source['compile_key']}"
    code = highlight(source["text"], CudaLexer(), formatter)
    return f"<p>Compiled: {', '.join(build) or 'nothing is stored of it'}.</p>{remarks}" + _details_element(
        summary, code, ' class="source"'
    )


def source_styles() -> str:
    """The source's colours, for light and for dark."""
    light = HtmlFormatter(style="default", cssclass=SOURCE).get_style_defs(f".{SOURCE}")
    dark = HtmlFormatter(style="github-dark", cssclass=SOURCE).get_style_defs(f".{SOURCE}")
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{ {dark} }}"


def origin(record: Json, figures: Figures) -> str:
    """Where it comes from: the command, the machine, the cost."""
    run, cost = record["run"], record["cost"]
    rows = [("command", f'<code class="command">{escape(run["command"])}</code>')]
    rows += [
        ("run", escape(_run(run))),
        ("began", escape(run["begun"])),
        ("newest outcome", escape(run["newest"])),
    ]
    rows.append(("evoflash", escape(run["evoflash_version"])))
    rows += [(name, escape(text)) for name, text in run["environment"].items()]
    rows += [("how fast a GPU was", escape(words)) for words in record["gpus_say"]]
    rows.append(("wall clock", f"{figures.exact(cost['wall_s'])} s, pauses included"))
    rows += [(name, html) for name, html in _cost_rows(cost) if html]
    columns = (HtmlColumn("what", lambda row: escape(row[0])), HtmlColumn("as noted", itemgetter(1)))
    return table(columns, rows, caption="Environment and cost")


def _cost_rows(cost: Json) -> list[tuple[str, str]]:
    exact = Figures.exact
    price = (
        f"{exact(cost['price'])} at {exact(cost['price_per_hour'])} for a GPU hour" if cost["price"] else ""
    )
    rungs = ", ".join(f"{rung} {exact(seconds)} s" for rung, seconds in cost["rungs_s"].items())
    return [
        ("GPU", f"{exact(cost['gpu_minutes'])} minutes" if cost["gpu_minutes"] else ""),
        ("price", price),
        ("candidates in the GPU process", rungs),
        ("CPU", f"{exact(cost['cpu_minutes'])} minutes of all cores together" if cost["cpu_minutes"] else ""),
        ("compiler", f"{exact(cost['compile_s'])} s of NVRTC, all builds together"),
    ]


def _run(run: Json) -> str:
    name = f" '{run['name']}'" if run["name"] else ""
    budget = f" of {run['budget']}" if run["budget"] else ""
    return (
        f"{run['id']}{name}, {run['state']}: {run['evaluated']}{budget} evaluated, {run['correct']} correct, "
        f"{run['screened']} screened, {run['failed']} failed, {run['duplicates']} duplicates; "
        f"{run['strategy']}, seed {run['seed']}"
    )
