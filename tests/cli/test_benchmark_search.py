"""Strategies and rivals on recorded spaces: rows, paired tests; the table, the page, the record."""

import json
from html.parser import HTMLParser
from importlib.util import find_spec

import numpy as np
import pytest
from command_cases import EXIT_USAGE, one_line
from forked import evoflash
from places import FIXTURES
from rich.console import Console

from evoflash.app.recordings import Benchmark, provenance
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Rung, Status
from evoflash.replay import benchmark as benchmarking
from evoflash.replay.benchmark import benchmark, paired_test
from evoflash.replay.comparison import compare
from evoflash.replay.kernel_tuner import read_recording, shipped_spaces
from evoflash.replay.recorded_space import RecordedOutcome, Recording, recorded_space
from evoflash.space import Genome, Param
from evoflash.views import recordings as report
from evoflash.views.html import search_curves

FIXTURE = FIXTURES / "recorded.json.gz"
HOW = provenance(["benchmark-search", "a <b>.json"], seeds=6, first_seed=3, reference="uniform")


@pytest.fixture(scope="module")
def space():
    runs = {"budget": 40, "seeds": range(3, 9), "reference": "uniform", "jobs": 2}
    found = list(benchmark([FIXTURE], ["evolution", "uniform", "optuna:random"], **runs))
    assert len(found) == 1
    return found[0]


def test_a_row_says_what_the_command_that_compares_says(space) -> None:
    rows = {row.name: row for row in space.rows}
    expected = compare(read_recording(FIXTURE), ["evolution", "uniform"], budget=40, repeats=6, seed=3)

    assert (rows["evolution"].standing, rows["uniform"].standing) == expected.standings
    assert (space.configurations, space.correct, space.basis) == (416, 373, Basis.MEASURED)


def test_the_tail_and_the_median_are_those_of_the_seeds(space) -> None:
    for row in space.rows:
        assert len(row.scores) == 6
        assert np.mean(row.scores) == pytest.approx(row.standing.score)
        assert row.median == np.median(row.scores)
        assert row.below_random == np.mean(np.array(row.scores) < 0)
        assert len(row.quartiles) == space.budget == 40
        assert all(1 <= low <= middle <= high for low, middle, high in row.quartiles)
        assert row.quartiles[-1][1] == pytest.approx(row.standing.best_over_optimum)


def test_each_is_tested_against_the_reference_and_it_against_nothing(space) -> None:
    rows = {row.name: row for row in space.rows}

    assert rows["uniform"].p_value is None
    for name in ("evolution", "optuna:random"):
        difference, p_value = paired_test(rows[name].scores, rows["uniform"].scores)
        assert (rows[name].difference, rows[name].p_value) == (difference, p_value)
    assert [row.standing.score for row in space.rows] == sorted(r.standing.score for r in space.rows)[::-1]


def test_equal_scores_differ_by_nothing_and_a_constant_gain_is_seen() -> None:
    scores = np.linspace(-1.0, 1.0, 20)

    assert paired_test(scores, scores) == (0.0, 1.0)
    difference, p_value = paired_test(scores + 0.2, scores)
    assert difference == pytest.approx(0.2)
    assert p_value < 0.001
    # One seed more or less says nothing.
    assert paired_test([0.5, 0.1, 0.3], [0.1, 0.2, 0.1])[1] > 0.2


def test_names_and_groups_are_contenders_each_once() -> None:
    assert benchmarking.contenders("evolution,optuna,evolution") == ("evolution", *benchmarking.OPTUNA)
    assert "kt:pso" in benchmarking.contenders("kernel-tuner")
    assert benchmarking.contenders("kt:mls") == ("kt:mls",)
    for wrong in ("annealing", "kt:annealing", "optuna:annealing", ""):
        with pytest.raises(UsageError, match="no strategy is called"):
            benchmarking.contenders(wrong)


@pytest.mark.parametrize("name", benchmarking.OPTUNA)
def test_optunas_samplers_find_recorded_times_each_configuration_once(name) -> None:
    recording = read_recording(FIXTURE)
    found = benchmarking.run_contender(recording, name, 30, seed=1)

    assert len(found) == 30
    assert {us for us in found if np.isfinite(us)} <= set(recording.scores_us)
    assert found == benchmarking.run_contender(recording, name, 30, seed=1)
    assert found != benchmarking.run_contender(recording, name, 30, seed=2)


def test_a_sampler_that_has_found_all_ends() -> None:
    param = Param("n", (1, 2, 3))
    outcomes = {
        Genome("f", 1, (("n", n),)): RecordedOutcome(Status.CORRECT, Rung.DONE, "", 1.0 * n) for n in (1, 2)
    }
    recording = Recording(recorded_space("f", (param,), outcomes), "p", "d")

    assert sorted(benchmarking.run_contender(recording, "optuna:random", 10, seed=0)) == [1.0, 2.0]


@pytest.mark.skipif(find_spec("kernel_tuner") is None, reason="needs the extra `benchmarks`")
@pytest.mark.parametrize("name", ["kt:random_sample", "kt:pso", "kt:genetic_algorithm"])
def test_kernel_tuners_strategies_find_recorded_times(name) -> None:
    recording = read_recording(FIXTURE)
    found = benchmarking.run_contender(recording, name, 30, seed=1)

    assert 10 <= len(found) <= 30
    assert {us for us in found if np.isfinite(us)} <= set(recording.scores_us)


def test_the_shipped_spaces_are_those_of_the_community() -> None:
    spaces = {path.name: read_recording(path) for path in shipped_spaces()}

    sizes = {name: (len(each.space.genomes), each.scores_us[0]) for name, each in spaces.items()}
    assert sizes == {
        "convolution_milo-a4000.json.gz": (4362, pytest.approx(1021.0, rel=1e-3)),
        "pnpoly-rtx3090.json.gz": (4092, pytest.approx(8714.0, rel=1e-3)),
    }
    assert all(path.stat().st_size < 120_000 for path in shipped_spaces())
    assert "Copyright (c) 2025 AutoTuningAssociation" in (shipped_spaces()[0].parent / "LICENSE").read_text()


# ---- what is written


class Tags(HTMLParser):
    """Which tags a page opens, whether it closes them in order, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}  # it needs no other file
        self.seen.append(tag)
        if tag not in ("meta", "line", "polyline", "polygon", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.words += data


def test_the_page_is_whole_and_has_a_plot_for_each_strategy_and_one_of_all(space) -> None:
    text = search_curves.page_of_benchmark(Benchmark((space,), HOW))
    tags = Tags(text)

    assert tags.open == []
    assert tags.seen.count("svg") == len(space.rows) + 1
    assert tags.seen.count("circle") == len(space.rows) * (6 + 1)  # the seeds, and their mean
    assert "prefers-color-scheme: dark" in text
    assert "evoflash benchmark-search 'a <b>.json'" in tags.words
    for row in space.rows:
        assert row.name in tags.words


def test_every_point_of_a_plot_lies_within_it(space) -> None:
    from evoflash.views.html.search_curves import HEIGHT, WIDTH, curves

    for row in space.rows:
        for piece in curves(space, row, space.rows[0]).split('points="')[1:]:
            for point in piece.partition('"')[0].split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= WIDTH
                assert 0 <= y <= HEIGHT


def test_the_table_fits_eighty_columns_and_its_legend_says_what_it_means(space) -> None:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115  # it is Rich's
    report.print_benchmark(Benchmark((space, space), HOW), console)
    text = console.export_text()

    assert all(len(line) <= 80 for line in text.splitlines())
    assert "Mean of mean P over 2 spaces" in text
    assert "6 seeds of 40 evaluations each" in text
    for row in space.rows:
        assert row.name in text


def test_the_command_writes_page_and_record_and_prints_the_record(tmp_path) -> None:
    done = evoflash(
        "benchmark-search", str(FIXTURE), "--strategies", "uniform", "--reference", "uniform",
        "--seeds", "2", "--budget", "10", "--jobs", "1", "-o", str(tmp_path / "found"), "--json",
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "found.json").read_text())
    assert found["command"].startswith("evoflash benchmark-search ")
    (space,) = found["spaces"]
    assert [row["standing"]["strategy"] for row in space["rows"]] == ["uniform"]
    assert len(space["rows"][0]["scores"]) == 2
    assert Tags((tmp_path / "found.html").read_text()).seen.count("svg") == 2


def test_a_strategy_that_nobody_has_is_the_users_mistake() -> None:
    done = evoflash("benchmark-search", "--strategies", "annealing")

    assert done.returncode == EXIT_USAGE
    assert "no strategy is called 'annealing'" in one_line(done)


@pytest.mark.skipif(find_spec("kernel_tuner") is not None, reason="Kernel Tuner is installed here")
def test_strategies_of_a_package_that_is_not_there_are_no_comparison(tmp_path) -> None:
    done = evoflash("benchmark-search", "--strategies", "kernel-tuner", "-o", str(tmp_path / "b"))

    assert done.returncode == EXIT_USAGE
    assert "of --strategies kernel-tuner none can run without its package" in one_line(done)
    assert list(tmp_path.iterdir()) == []
