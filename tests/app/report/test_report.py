"""`evoflash report`: its numbers are the run's, and the page's are those of its JSON."""

import json
import math
import re
import sqlite3
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest
import report_cases as cases
from tables import table_of_cases

from evoflash.app.report import collect, record
from evoflash.app.runs import closing_database, find_run
from evoflash.app.search.session import pairs_of, read_pairs
from evoflash.cli import program as cli
from evoflash.errors import NoKernelError, StoreError, UsageError, without_passwords
from evoflash.evaluation import Basis, Status
from evoflash.gpu.process.finals import FinalReport
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.store.store import Store, open_store
from evoflash.views.html import report as report_page
from evoflash.views.html.markup import Figures
from evoflash.views.html.report import html


def reported(path: Path, wanted: str | None = None, **asked: float) -> dict:
    with closing_database(str(path), read_only=True) as database:
        store = Store(database)
        run = find_run(store, wanted)
        return json.loads(json.dumps(collect.collect(database, store, run, **asked).as_dict()))


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "evoflash.db"
    with open_store(str(path)) as store:
        cases.fill(store)
    return path


@pytest.fixture(scope="module")
def found(database) -> dict:
    return reported(database, "1")


@pytest.fixture(scope="module")
def page(found) -> str:
    return html(found)


class Page(HTMLParser):
    """Every <data> with its text, every tag, every script, every address, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.data: list[tuple[str, str]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._open.append(tag)
        if tag == "data":
            self.data.append((dict(attributes)["value"], ""))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, text):
        if "data" in self._open:
            self.data[-1] = (self.data[-1][0], self.data[-1][1] + text)
        if "script" in self._open:
            self.scripts[-1] += text
        elif "style" not in self._open:
            self.text += text


def numbers(value) -> set[float]:
    """All numbers of a JSON value."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()))
    if isinstance(value, list):
        return set().union(*map(numbers, value))
    return {value} if isinstance(value, int | float) and not isinstance(value, bool) else set()


# ---- the record


def test_the_winner_is_the_retimed_one_with_its_interval_and_its_tie(found):
    _, _, _, best, tied, *_ = cases.genomes(8)
    verdict = found["verdict"]
    assert (verdict["id"], verdict["us"], verdict["protocol"], verdict["is_final"]) == (
        best.id,
        12.5,
        "final-cold",
        True,
    )
    assert (verdict["p10_us"], verdict["p90_us"], verdict["n"]) == (12.5 * 0.99, 12.5 * 1.02, 60)
    assert [tie["id"] for tie in verdict["ties"]] == [tied.id]
    assert verdict["seed_us"] == 20.0
    assert verdict["over_seed"] == pytest.approx(1.6)


def test_a_pair_is_said_of_the_winner_whichever_of_the_two_was_named_first(found):
    pairs = {pair["other"]: pair for pair in found["verdict"]["pairs"]}
    _, _, _, _, tied, *_ = cases.genomes(8)
    assert pairs[tied.id]["ratio"] == pytest.approx(1 / 1.008)
    assert (pairs[tied.id]["low"], pairs[tied.id]["high"]) == pytest.approx((1 / 1.017, 1 / 0.999))
    assert (pairs[tied.id]["answer"], pairs[tied.id]["is_baseline"]) == ("unclear", False)
    assert (pairs["sdpa_flash"]["answer"], pairs["sdpa_flash"]["is_baseline"]) == ("faster", True)


def test_a_run_whose_pairs_were_not_kept_says_so_and_goes_by_the_spreads(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        run = cases.fill(store)
        store.keep_final_pairs(run, ())
    verdict = reported(path, "1")["verdict"]
    assert verdict["pairs"] == []
    assert any("No interval is stored" in line for line in verdict["says"])
    assert len(verdict["ties"]) == 1


def test_final_pairs_come_back_from_the_store_and_broken_ones_are_one_line(tmp_path):
    pair = PairedComparison("a", "b", "w", "final-cold", 0.9, 0.8, 0.95, n=9)
    other = PairedComparison("b", "c", "w", "final-cold", 0.9, 0.8, 0.95, n=9)
    hot = PairedComparison("a", "b", "w", "final-hot", 0.9, 0.8, 0.95, n=9)
    with open_store(str(tmp_path / "evoflash.db")) as store:
        run = cases.begin(store)
        assert read_pairs(run) == ()
        kept = pairs_of(FinalReport({}, (pair, other, hot), {}, {}, {}), "a")
        store.keep_final_pairs(run, [asdict(each) for each in kept])
        assert read_pairs(store.runs()[0]) == (pair,)
        store.keep_final_pairs(run, [{"other": "a"}])
        with pytest.raises(StoreError, match="db check"):
            read_pairs(store.runs()[0])
        text = "UPDATE runs SET final_pairs_json = '[{]'"
        store.database.write(lambda connection: connection.exec_driver_sql(text))
        with pytest.raises(StoreError, match="db check"):
            store.runs()


def test_every_candidate_is_listed_with_its_end(found):
    rows = found["candidates"]
    assert [row["status"] for row in rows] == [
        *("correct", "correct", "correctness", "correct", "screened", "correct", "correct", "correct")
    ]
    assert [row["us"] for row in rows] == [20.0, 16.0, None, 15.0, 90.0, 12.6, 12.5, 12.5]
    assert rows[7]["duplicate_of"] == rows[6]["id"]
    assert found["run"]["evaluated"] == 7
    assert (found["run"]["correct"], found["run"]["screened"], found["run"]["failed"]) == (5, 1, 1)


def test_the_best_so_far_falls_as_the_search_found_it_beside_seed_and_random(found):
    progress = found["progress"]
    assert [(p["evaluations"], p["us"]) for p in progress["best"]] == [
        (1, 20.0),
        (2, 16.0),
        (4, 15.0),
        (6, 12.6),
        (7, 12.5),
    ]
    assert (progress["seeds"], progress["seed_us"]) == (1, 20.0)
    (random,) = progress["random"]
    assert [(p["evaluations"], p["us"]) for p in random["best"]] == [(1, 90.0), (2, 16.5)]
    assert "1 random search is stored" in progress["says"][1]
    assert progress["says"][1].endswith("ahead of it.")  # 16.0 against 16.5 after two evaluations


def test_without_a_random_search_the_report_says_how_to_make_one(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        run = cases.begin(store)
        cases.put(store, run, [(cases.measured(cases.genomes(1)[0], 20.0), "seed", ())])
    said = reported(path)["progress"]["says"]
    assert any("`evoflash search --strategy uniform --gpu h200 --problem" in line for line in said)


def test_the_lineage_leads_from_the_seed_to_the_winner_with_each_hops_change(found):
    hops = found["lineage"]["hops"]
    assert [hop["us"] for hop in hops] == [20.0, 16.0, 15.0, 12.5]
    assert [hop["change"] for hop in hops] == [None, 16 / 20, 15 / 16, 12.5 / 15]
    assert hops[1]["genes"]
    assert "1.600 times as fast" in found["lineage"]["says"][0]


def test_neighbours_of_the_winner_differ_in_one_gene_and_say_what_it_is_worth(found):
    values = {cases.genomes(8)[at].id: cases.genomes(8)[at].as_dict() for at in range(8)}
    near, winner = found["lineage"]["neighbours"], values[found["verdict"]["id"]]
    assert near
    for each in near:
        theirs = values[each["id"]]
        assert [gene for gene in winner if winner[gene] != theirs[gene]] == [each["gene"]]
        assert (each["best_value"], each["value"]) == (winner[each["gene"]], theirs[each["gene"]])


def test_rejections_are_counted_by_rung(found):
    assert found["rejections"] == [
        {"rung": "smoke", "status": "correctness", "count": 1, "reasons": [[cases.SCRIPT, 1]]}
    ]
    reached = {each["rung"]: (each["reached"], each["rejected"]) for each in found["reached"]}
    assert reached["checks"] == (7, 0)
    assert reached["first look"] == (7, 0)
    assert reached["preflight"] == (6, 0)
    assert reached["smoke"] == (6, 1)
    assert reached["done"] == (5, 0)
    assert {each["rung"]: each["screened"] for each in found["reached"] if each["screened"]} == {
        "first look": 1
    }


def test_floors_are_those_of_the_gpu_and_the_workload(found):
    (roofline,) = found["rooflines"]
    floors = {floor["name"]: floor for floor in roofline["floors"]}
    flops, pairs = 4 * 8 * 512 * 512 * 64, 8 * 512 * 512
    assert roofline["flops"] == flops
    assert floors["exp"]["us"] == pytest.approx(pairs / (132 * 16 * floors_clock()), rel=1e-9)
    assert floors["tensor"]["share"] == pytest.approx(floors["tensor"]["us"] / 12.5)
    kinds = [point["kind"] for point in roofline["points"]]
    assert sorted(kinds) == ["baseline", "seed", "winner"]


def floors_clock() -> int:
    from evoflash.specs import load_gpu

    return load_gpu("h200").clock_mhz


def test_libraries_stand_beside_the_winner(found):
    (peer,) = found["peers"]
    assert (peer["name"], peer["us"], peer["versions"]) == ("sdpa_flash", 14.0, {"torch": "2.9"})
    assert peer["over_best"] == pytest.approx(14 / 12.5)


def test_the_cost_is_what_was_charged_to_the_run_in_money_where_a_price_is_given(found, database):
    cost = found["cost"]
    assert (cost["gpu_minutes"], cost["cpu_minutes"], cost["price"]) == (0.5, 1.5, None)
    assert cost["rungs_s"] == {"smoke": 3.5, "timing": 10.5}  # seven candidates and no duplicate
    assert cost["compile_s"] == pytest.approx(3.5)
    priced = reported(database, "1", price_per_hour=6.0)["cost"]
    assert (priced["price_per_hour"], priced["price"]) == (6.0, pytest.approx(6.0 * 30 / 3600))


def test_fronts_have_the_correct_kernels_that_no_other_is_better_than(tmp_path):
    path = tmp_path / "evoflash.db"
    fast, lean, worse, wrong = cases.genomes(4)
    with open_store(str(path)) as store:
        run_ = cases.begin(store)
        outcomes = [
            (cases.measured(fast, 10.0), "seed", ()),
            (cases.measured(lean, 14.0, builds=cases.built(lean, registers=64)), "seed", ()),
            (cases.measured(worse, 15.0, builds=cases.built(worse, registers=80)), "seed", ()),
            (cases.measured(wrong, 9.0, Status.SCREENED, builds=cases.built(wrong, registers=8)), "x", ()),
        ]
        cases.put(store, run_, outcomes)
    fronts = {tuple(front["objectives"]): front for front in reported(path)["fronts"]}
    front = fronts["latency", "registers"]
    assert [(point["id"], *point["figures"]) for point in front["points"]] == [
        (fast.id, 10.0, 120),
        (lean.id, 14.0, 64),
    ]
    assert [point["figures"] for point in front["others"]] == [[15.0, 80]]
    assert ("latency", "energy") not in fronts  # nobody measured it


def test_no_password_of_a_database_gets_into_a_report(found, page):
    assert found["run"]["command"] == "evoflash search --gpu h200 --db 'postgresql://me:***@host/db'"
    assert "secret" not in page
    assert without_passwords("x --db postgresql://u:p@ss@h/d") == "x --db postgresql://u:***@h/d"


def test_what_is_drawn_at_the_charts_edge_is_said_beside_it(page):
    assert "Marks at the upper edge are slower than it" in page


def test_the_source_of_the_winner_is_in_the_report(found):
    (source,) = found["kernel"]["sources"]
    assert "__global__" in source["text"] or "EF_" in source["text"]
    assert (source["registers"], source["spill_bytes"]) == (120, 8)
    assert found["kernel"]["checks"][0]["rel_l2"] == 3e-4


def test_numbers_that_nobody_knows_are_null(tmp_path):
    text = record._json_safe({"a": math.inf, "b": [math.nan, 1.5]})
    assert text == {"a": None, "b": [None, 1.5]}


# ---- which run


def test_the_newest_search_is_taken_and_a_run_that_is_none_is_not(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        cases.fill(store)
        cases.begin(store, strategy="evaluate")
    assert reported(path)["run"]["strategy"] == "uniform"
    assert reported(path, "1")["run"]["strategy"] == "surrogate"
    with pytest.raises(UsageError, match="evoflash runs"):
        reported(path, "nonsense")


def test_a_database_without_a_search_is_one_line(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        cases.begin(store, strategy="baselines")
    with pytest.raises(NoKernelError, match="run `evoflash search`"):
        reported(path)


def test_a_run_without_a_correct_kernel_still_has_a_page(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        run = cases.begin(store)
        wrong = cases.measured(cases.genomes(1)[0], None, Status.COMPILE, reason="error: x")
        cases.put(store, run, [(wrong, "seed", ())])
    found = reported(path)
    assert (found["verdict"], found["kernel"], found["rooflines"]) == (None, None, [])
    assert "No kernel was correct in 1 evaluations" in Page(html(found)).text


def test_a_run_that_has_only_begun_still_has_a_page(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        cases.begin(store)
    assert "continues it" in Page(html(reported(path))).text


# ---- the page


def test_each_number_of_the_page_is_one_of_its_json(found, page):
    known, shown = numbers(found), Page(page).data
    known |= {len(found["verdict"]["ties"])}
    assert len(shown) > 100
    assert {value for value, _ in shown if float(value) not in known} == set()


def test_a_number_reads_as_its_whole_value_does(page):
    """To half of its last digit; a percentage is of a share, or what a ratio adds."""
    for value, text in Page(page).data:
        digits = re.sub(r"[^\d.e+-]", "", text.replace("\u2212", "-").replace(",", ""))
        mantissa, _, exponent = digits.partition("e")
        half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) * (1 + 1e-9)
        whole = float(value)
        readings = (100 * whole, 100 * (whole - 1)) if "%" in text else (whole,)
        assert any(abs(float(digits) - one) <= half for one in readings), (value, text)


def test_the_page_is_made_of_the_json_alone_and_carries_it_whole(found, page):
    again = html(json.loads(json.dumps(found)))
    assert again == page
    (embedded, _script) = Page(page).scripts
    assert json.loads(embedded) == found


def test_the_command_writes_the_page_of_the_json_that_it_writes(database, tmp_path):
    out, numbers_file = tmp_path / "report.html", tmp_path / "report.json"
    assert run(["report", "1", "--db", str(database), "-o", str(out), "--json", str(numbers_file)]) == 0
    assert html(json.loads(numbers_file.read_text())) == out.read_text()
    assert out.stat().st_size < 1 << 20


def run(arguments: list[str]) -> int:
    try:
        return cli.run_command(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def test_nothing_that_others_wrote_is_markup_or_ends_the_script(page):
    parsed = Page(page)
    assert len(parsed.scripts) == 2
    assert "alert(1)" in parsed.text
    assert cases.SCRIPT not in page


def test_the_page_names_no_address_and_its_policy_lets_a_browser_load_none(page):
    parsed = Page(page)
    addresses = [
        value
        for _, attributes in parsed.tags
        for name, value in attributes.items()
        if name in ("src", "href", "data")
    ]
    assert [address for address in addresses if not address.startswith(("#", "data:,"))] == []
    assert "http" not in re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL).split(
        "<h2>"
    )[0].replace("http-equiv", "")
    assert any("default-src 'none'" in (attributes.get("content") or "") for _, attributes in parsed.tags)


def test_every_chart_says_in_words_what_it_shows(page):
    charts = [attributes for tag, attributes in Page(page).tags if tag == "svg" and "class" in attributes]
    assert len(charts) >= 14
    assert all(chart["role"] == "img" and len(chart["aria-label"]) > 30 for chart in charts)


def test_an_estimate_never_loses_its_mark(tmp_path):
    path = tmp_path / "evoflash.db"
    with open_store(str(path)) as store:
        first, second = cases.genomes(2)
        run_ = cases.begin(store, basis=Basis.ESTIMATED)
        timed = {"basis": Basis.ESTIMATED, "model_version": "4"}
        cases.put(
            store,
            run_,
            [
                (cases.measured(first, 20.0, **timed), "seed", ()),
                (cases.measured(second, 15.25, **timed), "one_gene", (first.id,)),
            ],
        )
    found = reported(path)
    parsed = Page(html(found))
    assert "ESTIMATED by model 4, not measured" in parsed.text
    assert found["run"]["is_estimate"]
    times = [text for value, text in parsed.data if float(value) in (20.0, 15.25)]
    assert len(times) > 6
    assert all(text.startswith("~") for text in times)
    tips = [attributes["data-tip"] for _, attributes in parsed.tags if "data-tip" in attributes]
    assert [tip for tip in tips if re.search(r"(?<![~\d.])15\.25", tip)] == []


@table_of_cases()
def test_a_number_has_four_digits_and_no_exponent(value, text):
    assert record.short(value) == text


def test_a_change_of_nothing_has_no_sign():
    figures = Figures("~")
    assert ">~0.0 %<" in figures.change(1.0000001)
    assert ">\u2212~10.0 %<" in figures.change(0.9)


# ---- what goes wrong


def test_page_and_json_in_one_file_are_refused(database, tmp_path, capsys):
    same = str(tmp_path / "a")
    assert run(["report", "--db", str(database), "-o", same, "--json", same]) == 2
    assert "different names" in capsys.readouterr().err


def test_no_page_replaces_a_database(database, tmp_path, capsys):
    before = database.read_bytes()
    for words in (["report", "1", "-o"], ["report", "1", "--json"], ["leaderboard", "--html"]):
        assert run([*words, str(database), "--db", str(database)]) == 2
        assert "is a database, and would be lost" in capsys.readouterr().err
    assert database.read_bytes() == before


def test_retiming_without_its_gpu_is_one_line(database, tmp_path, capsys):
    code = run(["report", "1", "--db", str(database), "--retime", "-o", str(tmp_path / "x.html")])
    said = capsys.readouterr().err
    assert code != 0
    assert said.count("\n") == 1
    assert "--retime times the lineage on h200" in said
    assert not (tmp_path / "x.html").exists()


def test_reading_a_report_changes_nothing(database, tmp_path):
    with sqlite3.connect(database) as connection:
        before = list(connection.iterdump())
    reported(database, "1")
    with sqlite3.connect(database) as connection:
        assert list(connection.iterdump()) == before


# ---- colours


def schemes() -> dict[str, dict[str, str]]:
    """The style sheet's colours by scheme."""
    css = (Path(report_page.__file__).parent / "style.css").read_text()
    blocks = re.findall(r":root \{([^}]*)\}", css)
    light, dark, printed = (dict(re.findall(r"--(\w+): (#\w+)", block)) for block in blocks)
    return {"light": light, "dark": dark, "print": printed}


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_words_and_marks_stand_out_from_the_paper(scheme):
    """WCAG's 4.5 for words, 3 for what is drawn."""
    colours = schemes()[scheme]
    for paper in ("paper", "raised"):
        for words in ("ink", "soft", "c0"):
            assert contrast(colours[words], colours[paper]) >= 4.5, (words, paper)
    for drawn in ("c0", "c1", "c2", "c3", "c4", "c5", "lost"):
        assert contrast(colours[drawn], colours["paper"]) >= 3, drawn


def test_a_run_on_two_gpus_says_how_fast_each_was_in_report_and_status(tmp_path, capsys):
    path = tmp_path / "two.db"
    with open_store(str(path)) as store:
        cases.on_two_gpus(store, slower=1.06)
    found = reported(path)
    assert [(each["gpu"], each["n"]) for each in found["gpus"]] == [("GPU-a", 6), ("GPU-b", 6)]
    assert found["gpus"][1]["factor"] == pytest.approx(1.06, abs=0.002)
    assert found["gpus_say"][-1].startswith("WARNING: one GPU takes 6.0 % ")
    text = Page(html(found)).text
    assert run(["status", "--db", str(path)]) == 0
    said = capsys.readouterr().out
    assert run(["status", "--json", "--db", str(path)]) == 0
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert told["gpus"] == found["gpus"]
    for shown in (text, said):
        assert "GPU-b: 1.0600 times the usual time, 1.05" in shown
