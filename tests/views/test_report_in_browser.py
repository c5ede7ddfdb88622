"""Reports in a headless Chromium: a silent console, no request, nothing cut; hovering, sorting, filtering.

Skipped where Chromium, its driver (Debian: chromium, chromium-driver) or Selenium are not installed.
"""

import base64
import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import report_cases as cases

from evoflash.cli import program as cli
from evoflash.store.store import open_store

selenium = pytest.importorskip("selenium", reason="Selenium is not installed")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium and chromedriver in PATH"),
]
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    database = folder / "evoflash.db"
    with open_store(str(database)) as store:
        cases.fill(store)
        cases.begin(store, strategy="evolution")
    made = {"whole": ["report", "1"], "empty": ["report", "3"], "leaderboard": ["leaderboard"]}
    for name, words in made.items():
        option = "--html" if name == "leaderboard" else "-o"
        with contextlib.suppress(SystemExit):  # so commands end; without its page no test passes
            cli.run_command([*words, "--db", str(database), option, str(folder / f"{name}.html")])
    return {name: folder / f"{name}.html" for name in made}


def shown(browser, path: Path, width: int, scheme: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    for log in ("browser", "performance"):
        browser.get_log(log)  # what came before is another test's
    browser.get(path.as_uri())


def requests(browser) -> set[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return {each["request"]["url"] for each in sent}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", ["whole", "empty", "leaderboard"])
def test_a_page_asks_for_nothing_says_nothing_and_fits_its_width(browser, pages, name, width, scheme):
    shown(browser, pages[name], width, scheme)

    assert requests(browser) == {pages[name].as_uri()}
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(("width", "kind"), [(1280, "wide"), (400, "narrow")])
def test_one_of_a_charts_two_forms_is_shown(browser, pages, width, kind):
    shown(browser, pages["whole"], width)
    seen = browser.execute_script(
        "return [...document.querySelectorAll('main section > svg')].filter(e => e.checkVisibility())"
        ".map(e => e.getAttribute('class'))"
    )
    assert len(seen) >= 6
    assert set(seen) == {kind}


def test_no_words_of_a_chart_are_cut_off_at_its_edge(browser, pages):
    for width in (1280, 400):
        shown(browser, pages["whole"], width)
        cut = browser.execute_script(
            "return [...document.querySelectorAll('main section > svg')].filter(e => e.checkVisibility())"
            ".flatMap(svg => { const box = svg.getBoundingClientRect();"
            " return [...svg.querySelectorAll('text')]"
            ".filter(t => { const at = t.getBoundingClientRect();"
            " return at.left < box.left - 1 || at.right > box.right + 1; }).map(t => t.textContent); })"
        )
        assert cut == []


def test_what_is_pointed_at_says_what_it_is(browser, pages):
    from selenium.webdriver import ActionChains

    shown(browser, pages["whole"], 1280)
    mark = browser.find_element("css selector", "#all svg.wide .mark")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    ActionChains(browser).move_to_element(mark).perform()
    tip = browser.find_element("id", "tip")
    assert tip.is_displayed()
    assert tip.text == mark.get_attribute("data-tip")


def test_a_mark_leads_to_its_candidates_row(browser, pages):
    shown(browser, pages["whole"], 1280)
    mark = browser.find_element("css selector", "#all svg.wide .mark[data-id]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", mark)
    mark.click()
    (row,) = browser.find_elements("css selector", "#candidates tr.pointed")
    assert row.get_attribute("data-id") == mark.get_attribute("data-id")


def column(browser, name: str) -> list[str]:
    heads = [each.text.strip() for each in browser.find_elements("css selector", "#candidates th")]
    at = [head.split()[0] for head in heads].index(name) + 1
    rows = browser.find_elements("css selector", f"#candidates tbody tr td:nth-child({at})")
    return [each.text for each in rows]


def test_a_click_on_a_header_sorts_by_numbers_and_what_has_none_stays_last(browser, pages):
    shown(browser, pages["whole"], 1280)
    button = browser.find_element("css selector", "#candidates th:nth-child(4) button")
    browser.execute_script("arguments[0].click()", button)
    assert column(browser, "us") == ["12.50", "12.50", "12.60", "15.00", "16.00", "20.00", "90.00", ""]
    browser.execute_script("arguments[0].click()", button)
    assert column(browser, "us") == ["90.00", "20.00", "16.00", "15.00", "12.60", "12.50", "12.50", ""]
    head = browser.find_element("css selector", "#candidates th:nth-child(4)")
    assert head.get_attribute("aria-sort") == "descending"


def test_a_filter_leaves_the_rows_that_fit_and_counts_them(browser, pages):
    shown(browser, pages["whole"], 1280)
    browser.find_element("name", "words").send_keys("one_gene 12")
    rows = [
        each for each in browser.find_elements("css selector", "#candidates tbody tr") if each.is_displayed()
    ]
    assert browser.find_element("css selector", "#filter output").text == f"{len(rows)} of 8 shown"
    assert 0 < len(rows) < 8
    assert all("one_gene" in row.text and "12" in row.text for row in rows)


def test_printed_it_has_every_candidate_and_no_control(browser, pages):
    shown(browser, pages["whole"], 1280)
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    opened = browser.execute_script(
        "return [...document.querySelectorAll('details:not(.source)')].every(e => e.open)"
    )
    assert opened
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    try:
        assert not browser.find_element("id", "filter").is_displayed()
        assert (
            browser.execute_script("return getComputedStyle(document.querySelector('.tall')).maxHeight")
            == "none"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
