"""The leaderboard: who is ranked where, and that every form of it can be read back."""

import csv
import io
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from evoflash.app.kernel_lookup import installed_versions
from evoflash.app.leaderboard import Only, Rankings, read_rankings, since_of
from evoflash.cli import program as cli
from evoflash.errors import UsageError
from evoflash.evaluation import (
    Baseline,
    Basis,
    Build,
    Evaluation,
    Proposal,
    Run,
    Rung,
    RunKey,
    RunStart,
    Status,
    Timing,
)
from evoflash.kernels.family import load_family
from evoflash.operations.attention.workload import AttentionKey
from evoflash.paths import DB
from evoflash.space import Genome
from evoflash.store.store import Store, open_store
from evoflash.views import leaderboard as report
from evoflash.views.html.leaderboard import page

DECODE = "b=16,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=fp16"
MISSION = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"


def evaluation_of(block_m: int, score_us: float, *, basis: Basis = Basis.MEASURED) -> Evaluation:
    genome = Genome("flash_mma", load_family("flash_mma").version, (("block_m", block_m),))
    key = AttentionKey(64, "fp16", False, 1, "sm_89")
    is_estimate = basis is Basis.ESTIMATED
    protocol = "model" if is_estimate else "cold"
    return Evaluation(
        genome,
        MISSION,
        "l4",
        basis,
        Status.CORRECT,
        Rung.DONE,
        builds=(Build(genome.id, key, "source", "cubin", "text", registers=96, spill_bytes=4),),
        timings=(Timing(MISSION, protocol, score_us, score_us * 0.9, score_us * 1.1, 30),),
        score_us=score_us,
        bound="tensor",
        model_version="2026.1" if is_estimate else "",
    )


def test_what_an_older_version_of_a_family_took_is_no_rival_and_stands_where_its_run_is_asked_for(store):
    older, newer = evaluation_of(1, 5.0), evaluation_of(2, 9.0)
    older = replace(older, genome=replace(older.genome, version=1))
    run = begin(store)
    put(store, run, older)
    alone, asked = read_rankings(store), read_rankings(store, only=Only(run=run.id))

    what = "1 kernel of version 1 of flash_mma, which is now at 2"
    assert (alone.rows, alone.older[0].startswith(f"Not ranked: {what}")) == ((), True)
    assert [row["genome_id"] for row in asked.as_dicts()] == [older.genome.id]
    assert asked.as_dict()["older"] == [f"Among these are {what}: they are not what evoflash writes today."]
    for text in (report.as_markdown(alone), page(alone)):
        assert what in text
    assert store.best(MISSION, "l4", versions=installed_versions(store)) is None

    put(store, begin(store), newer)
    assert [row["genome_id"] for row in rows_of(store)] == [newer.genome.id]


def test_a_row_says_what_made_its_kernel_in_the_view_the_json_and_the_csv(store, tmp_path) -> None:
    key = RunKey(MISSION, "l4", Basis.ESTIMATED, "evolution", 1, from_archive=True)
    start = RunStart(archive=("0123456789abcdef",), learns_from_shipped=("mission",))
    environment = {"extensions": "mine.cu.j2 1a2b"}
    run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment=environment, start=start)
    put(store, run, evaluation_of(1, 5.0, basis=Basis.ESTIMATED))
    table = read_rankings(store)

    (row,) = table.with_genes()
    (parsed,) = csv.DictReader(io.StringIO(report.as_csv(table)))
    with closing(sqlite3.connect(tmp_path / "evoflash.db")) as connection:
        ((viewed,),) = connection.execute("SELECT provenance_json FROM leaderboard").fetchall()
    for made in (row["provenance"], json.loads(parsed["provenance_json"]), json.loads(viewed)):
        assert made["environment"] == environment
        assert (made["archive"], made["learns_from_shipped"]) == (["0123456789abcdef"], ["mission"])
    assert (row["basis"], row["family_version"]) == ("estimated", load_family("flash_mma").version)
    assert table.as_dict()["leaderboard"] == [row]


def baseline_of(name: str, score_us: float) -> Baseline:
    return Baseline(
        name, MISSION, "l4", (Timing(MISSION, "cold", score_us, score_us, score_us, 30),), score_us
    )


def begin(store: Store, *, basis: Basis = Basis.MEASURED, seed: int = 1) -> Run:
    key = RunKey(MISSION, "l4", basis, "evolution", seed)
    return store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})


def put(store: Store, run: Run, *evaluations: Evaluation) -> None:
    for evaluation in evaluations:
        store.add(run, evaluation, Proposal(evaluation.genome))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "evoflash.db")) as opened:
        yield opened


@pytest.fixture
def both(store: Store) -> Store:
    """Two measured kernels, a baseline, and two estimates that claim to be faster than all of them."""
    run = begin(store)
    put(store, run, evaluation_of(64, 20.0), evaluation_of(128, 10.0))
    store.add_baseline(run, baseline_of("sdpa_flash", 15.0))
    estimated = begin(store, basis=Basis.ESTIMATED)
    for block_m, score_us in ((32, 2.0), (64, 1.0)):
        put(store, estimated, evaluation_of(block_m, score_us, basis=Basis.ESTIMATED))
    return store


def rows_of(store: Store, **where: Any) -> list[dict[str, Any]]:
    return read_rankings(store, **where).as_dicts()


def printed(table: Rankings) -> str:
    console = Console(file=io.StringIO(), width=200)
    report.print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_candidates_and_baselines_share_one_ranking_by_time(both: Store) -> None:
    ranked = [(row["rank"], row["name"], row["score_us"]) for row in rows_of(both, basis=Basis.MEASURED)]
    assert ranked == [(1, "flash_mma", 10.0), (2, "sdpa_flash", 15.0), (3, "flash_mma", 20.0)]


def times(store: Store, only: Only) -> list[tuple[int, float]]:
    return [(row["rank"], row["score_us"]) for row in rows_of(store, only=only, basis=Basis.MEASURED)]


def test_a_family_is_ranked_with_the_libraries_as_if_there_were_no_other_family(both: Store) -> None:
    run = begin(both, seed=2)
    put(both, run, replace(evaluation_of(16, 1.0), genome=Genome("flash_simt", 1, (("block_m", 16),))))

    assert times(both, Only()) == [(1, 1.0), (2, 10.0), (3, 15.0), (4, 20.0)]
    assert times(both, Only(family="flash_mma")) == [(1, 10.0), (2, 15.0), (3, 20.0)]
    assert times(both, Only(family="flash_simt")) == [(1, 1.0), (2, 15.0)]
    assert times(both, Only(family="flash_wmma")) == []  # the libraries alone are no leaderboard of it


def test_a_run_is_ranked_with_what_it_found_itself(both: Store) -> None:
    """Also where another run has timed the same genome, and faster."""
    later = begin(both, seed=2)
    put(both, later, evaluation_of(64, 5.0))
    first = both.runs()[-1]

    assert times(both, Only(run=later.id)) == [(1, 5.0)]
    assert times(both, Only(run=first.id)) == [(1, 10.0), (2, 15.0), (3, 20.0)]


def test_since_leaves_out_what_was_evaluated_before(both: Store, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "evoflash.db") as connection:
        connection.execute(
            "UPDATE evaluations SET created = '2026-01-02T03:04:05+00:00' WHERE score_us = 10.0"
        )

    assert times(both, Only(since=since_of("2026-01-02"))) == [(1, 10.0), (2, 15.0), (3, 20.0)]
    assert times(both, Only(since=since_of("2026-01-02T03:04:06"))) == [(1, 15.0), (2, 20.0)]


def test_a_time_of_another_zone_is_meant_in_it() -> None:
    assert since_of("2026-11-23T01:30+02:00") == "2026-11-22T23:30:00+00:00"
    assert since_of("2026-11-23") == "2026-11-23T00:00:00+00:00"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "0001-01-01T00:00+09:00"])
def test_what_is_no_date_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(UsageError, match="2026-11-23T14:30"):
        since_of(text)


@pytest.mark.parametrize(
    ("option", "says"),
    [("--family=flash_nma", "flash_mma"), ("--run=99", "evoflash runs"), ("--since=soon", "is no date")],
)
def test_a_filter_that_names_nothing_is_an_error(
    option: str, says: str, both: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_command(["leaderboard", option, "--db", str(tmp_path / "evoflash.db")]) == 2
    assert says in capsys.readouterr().err


def test_estimates_and_measurements_are_ranked_apart(both: Store) -> None:
    ranked = [(row["basis"], row["rank"]) for row in rows_of(both)]
    assert ranked == [*(("measured", n) for n in (1, 2, 3)), *(("estimated", n) for n in (1, 2))]


def test_a_speed_up_is_over_the_fastest_baseline_of_the_same_run(both: Store) -> None:
    run = begin(both)
    both.add_baseline(run, baseline_of("fa2", 12.0))
    put(both, begin(both, seed=2), evaluation_of(16, 11.0))
    shown = {
        row["score_us"]: (row["speedup_vs"], row["speedup"]) for row in rows_of(both, basis=Basis.MEASURED)
    }
    assert shown[10.0] == ("fa2", pytest.approx(1.2))
    assert shown[11.0] == (None, None)
    assert shown[15.0] == (None, None)


def test_an_estimate_has_no_speed_up_over_a_measured_baseline(both: Store) -> None:
    assert {row["speedup"] for row in rows_of(both, basis=Basis.ESTIMATED)} == {None}


def test_tflops_follow_the_convention_of_the_field(both: Store) -> None:
    fastest = rows_of(both, basis=Basis.MEASURED)[0]
    assert fastest["tflops"] == pytest.approx(4 * 8 * 512 * 512 * 64 / 10.0 / 1e6)


@pytest.mark.parametrize(("problem", "has_bandwidth"), [(DECODE, True), (f"{DECODE}+{MISSION}", False)])
def test_where_reading_bounds_the_time_bandwidth_is_shown_beside_tflops(
    store: Store, problem: str, has_bandwidth: bool
) -> None:
    key = RunKey(problem, "l4", Basis.MEASURED, "evolution", 1)
    run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})
    put(store, run, replace(evaluation_of(1, 1000.0), problem=problem))
    header, _, row = printed(read_rankings(store)).splitlines()[1:4]
    assert ("GB/s" in header) is has_bandwidth
    assert ("537.1" in row) is has_bandwidth  # 2 (1 of K and V, 256 MiB each), and Q and O
    assert "TFLOPS" in header


def test_a_recorded_space_of_another_computation_has_no_tflops(store: Store) -> None:
    key = RunKey("convolution", "l4", Basis.REPLAYED, "evolution", 1)
    run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})
    put(store, run, replace(evaluation_of(1, 3.0, basis=Basis.REPLAYED), problem="convolution"))
    assert [(row["score_us"], row["tflops"]) for row in rows_of(store, basis=Basis.REPLAYED)] == [(3.0, None)]


def test_a_genome_found_by_two_runs_is_one_row_with_its_best_time(store: Store) -> None:
    put(store, begin(store, seed=1), evaluation_of(64, 20.0))
    put(store, begin(store, seed=2), evaluation_of(64, 18.0))
    assert [(row["score_us"], row["seed"]) for row in rows_of(store)] == [(18.0, 2)]


def test_a_time_taken_again_replaces_the_lucky_first_one(store: Store) -> None:
    run = begin(store)
    put(store, run, evaluation_of(64, 20.0), evaluation_of(128, 20.5))
    again = Timing(MISSION, "final-cold", 21.0, 20.9, 21.2, 300)
    store.update_timings(run, evaluation_of(64, 1.0).genome.id, [again], 21.0)
    put(store, begin(store, seed=2), evaluation_of(64, 19.0))
    ranked = [(row["score_us"], row["p90_us"], row["protocol"], row["n"]) for row in rows_of(store)]
    assert ranked == [(20.5, pytest.approx(22.55), "cold", 30), (21.0, 21.2, "final-cold", 300)]


def test_wrong_and_censored_kernels_are_not_ranked(store: Store) -> None:
    good = evaluation_of(64, 20.0)
    wrong = replace(evaluation_of(16, 1.0), status=Status.CORRECTNESS)
    hopeless = evaluation_of(32, 5.0)
    hopeless = replace(hopeless, timings=(replace(hopeless.timings[0], censored=True),))
    put(store, begin(store), good, wrong, hopeless)
    assert [row["genome_id"] for row in rows_of(store)] == [good.genome.id]


def test_estimates_of_an_older_model_leave_the_ranking(both: Store) -> None:
    newer = replace(evaluation_of(32, 3.0, basis=Basis.ESTIMATED), model_version="2026.2")
    put(both, begin(both, basis=Basis.ESTIMATED), newer)
    assert [(r["score_us"], r["model_version"]) for r in rows_of(both, basis=Basis.ESTIMATED)] == [
        (3.0, "2026.2")
    ]


def test_the_score_of_several_workloads_has_the_geometric_mean_of_their_spreads(store: Store) -> None:
    one = evaluation_of(64, 4.0)
    times = (Timing("a", "cold", 2.0, 1.0, 3.0, 30), Timing("b", "cold", 8.0, 4.0, 12.0, 20))
    hot = Timing("a", "hot", 0.1, 0.1, 0.1, 5)
    put(store, begin(store), replace(one, timings=(hot, *times)))
    (row,) = rows_of(store)
    assert (row["p10_us"], row["p90_us"], row["n"]) == (pytest.approx(2.0), pytest.approx(6.0), 20)


def test_top_counts_within_each_ranking(both: Store) -> None:
    assert [(row["basis"], row["rank"]) for row in rows_of(both, top=1)] == [
        ("measured", 1),
        ("estimated", 1),
    ]


def test_equal_times_do_not_stretch_the_top(store: Store) -> None:
    put(store, begin(store), *(evaluation_of(block_m, 4.0) for block_m in (16, 32, 64, 128)))
    assert [row["rank"] for row in rows_of(store, top=2)] == [1, 1]


def test_problem_and_gpu_select(both: Store) -> None:
    assert rows_of(both, problem=MISSION, gpu="l4") == rows_of(both)
    assert rows_of(both, gpu="h100") == []


def test_the_sql_file_gives_plain_sqlite_the_same_rows(both: Store, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "evoflash.db") as connection:
        by_file = connection.execute((DB / "leaderboard.sql").read_text()).fetchall()
        by_view = connection.execute("SELECT * FROM leaderboard").fetchall()
    assert set(by_file) == set(by_view) == set(read_rankings(both).rows)


def test_json_is_one_object_with_units_in_its_keys_and_genes_as_numbers(both: Store) -> None:
    rows = json.loads(json.dumps(read_rankings(both).as_dict()))["leaderboard"]
    assert (rows[0]["score_us"], rows[0]["spill_bytes"], rows[0]["values"]) == (10.0, 4, {"block_m": 128})
    assert (rows[1]["kind"], rows[1]["genome_id"], rows[1]["values"]) == ("baseline", None, None)


def test_csv_reads_back_as_the_same_rows(both: Store) -> None:
    table = read_rankings(both)
    parsed = list(csv.DictReader(io.StringIO(report.as_csv(table))))
    assert [row["score_us"] for row in parsed] == [str(row["score_us"]) for row in table.as_dicts()]
    assert tuple(parsed[0]) == table.columns


def test_markdown_is_one_pipe_table_per_ranking_with_even_lines(both: Store) -> None:
    text = report.as_markdown(read_rankings(both))
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    assert [len(part.strip().splitlines()) for part in tables] == [2 + 3, 2 + 2]
    assert [len({line.count("|") for line in part.strip().splitlines()}) for part in tables] == [1, 1]


@pytest.mark.parametrize("show", [report.as_markdown, printed])
def test_every_estimated_figure_carries_its_mark(both: Store, show: Any) -> None:
    text = show(read_rankings(both, basis=Basis.ESTIMATED))
    assert "estimated by model 2026.1, not measured" in text
    assert "est. us" in text
    assert "~1.000 " in text
    assert "p10-p90" not in text  # a model has no spread


@pytest.mark.parametrize("show", [report.as_markdown, printed])
def test_a_measured_table_carries_no_mark_of_an_estimate(both: Store, show: Any) -> None:
    text = show(read_rankings(both, basis=Basis.MEASURED))
    assert "~" not in text
    assert "est. us" not in text
    assert f"{MISSION} (mission) on l4: measured" in text


@pytest.mark.parametrize("show", [report.as_markdown, printed])
def test_an_empty_leaderboard_says_what_to_do(store: Store, show: Any) -> None:
    assert "run `evoflash search`" in show(read_rankings(store))


def test_as_a_page_it_has_every_ranking_marks_estimates_and_needs_no_other_file(both: Store) -> None:
    text = page(read_rankings(both))

    assert text.count("<section>") == 2
    assert re.findall(r'data-key="[^"]*">([^<]*)<', text).count("~1.000") == 1
    assert "estimated by model 2026.1, not measured" in text
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:,)", text)


def test_the_page_of_an_empty_leaderboard_says_what_to_do(store: Store) -> None:
    assert "run <code>evoflash search</code>" in page(read_rankings(store))
