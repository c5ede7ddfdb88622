"""The store: what is kept, what counts, what survives kill -9, and what each broken database says."""

import json
import lzma
import math
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import python_processes
import sqlalchemy as sa
from places import FIXTURES
from tables import data, table_of_cases

from evoflash.app.report.collect import collect
from evoflash.app.search.session import _is_final
from evoflash.errors import StoreError
from evoflash.evaluation import (
    Baseline,
    Basis,
    Build,
    EarlierRun,
    Evaluation,
    Proposal,
    Run,
    Rung,
    RunKey,
    RunStart,
    Status,
    Timing,
    Verdict,
)
from evoflash.hardware_counters import KernelProfile, LaunchCounters
from evoflash.model_exchange import MODEL_EDIT, Exchange, JudgedEdit
from evoflash.operations.attention.workload import AttentionKey
from evoflash.paths import DB
from evoflash.space import Genome
from evoflash.store import database, schema
from evoflash.store.exchanges import keep_exchange, read_exchanges, read_origins
from evoflash.store.integrity import check_database
from evoflash.store.profiles import keep_profile, newest_run_with, read_profile
from evoflash.store.run_edits import delete
from evoflash.store.run_status import ComputeCost, charge, costs
from evoflash.store.store import Store, open_store

PROBLEM = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"
FIXTURE = FIXTURES / "store_0001.sql"


def genome_of(number: int) -> Genome:
    return Genome("flash_simt", 1, (("block_m", number), ("layout", "pad8"), ("lazy", True)))


def timing_of(median_us: float, protocol: str = "cold", *, censored: bool = False) -> Timing:
    return Timing(PROBLEM, protocol, median_us, median_us * 0.9, median_us * 1.1, 100, censored)


def build_of(genome: Genome, text_sha: str) -> Build:
    return Build(
        genome.id, AttentionKey(64, "fp16", False, 1, "sm_89"), "source", "cubin", text_sha, registers=64
    )


def evaluation_of(number: int, score_us: float | None, *, basis: Basis = Basis.MEASURED) -> Evaluation:
    genome = genome_of(number)
    protocol = "model" if basis is Basis.ESTIMATED else "cold"
    return Evaluation(
        genome,
        PROBLEM,
        "l4",
        basis,
        Status.CORRECT if score_us else Status.COMPILE,
        Rung.DONE if score_us else Rung.COMPILE,
        builds=(build_of(genome, f"text{number}"),),
        timings=(timing_of(score_us, protocol),) if score_us else (),
        score_us=score_us,
        model_version="m1" if basis is Basis.ESTIMATED else "",
    )


def put(store: Store, run: Run, evaluation: Evaluation) -> None:
    store.add(run, evaluation, Proposal(evaluation.genome))


def begin(store: Store, *, basis: Basis = Basis.MEASURED, fresh: bool = False, **changes: object) -> Run:
    given = {"gpu_hash": "abc", "budget": 10, "argv": ["search"], "environment": {"driver": "580"}} | changes
    seed = int(given.pop("seed", 1))  # type: ignore[call-overload]
    return store.begin(RunKey(PROBLEM, "l4", basis, "evolution", seed), fresh=fresh, **given)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evoflash.db"


@pytest.fixture
def store(target: str) -> Iterator[Store]:
    with open_store(target) as opened:
        yield opened


def full_evaluation() -> Evaluation:
    genome = genome_of(32)
    build = replace(
        build_of(genome, "text"),
        ok=True,
        spill_bytes=8,
        stack_bytes=16,
        smem_static_bytes=1024,
        compile_s=0.25,
        warnings=("C7510: potential performance loss",),
        log="ptxas info",
        cubin_path="/cache/kernel.cubin",
    )
    timing = replace(timing_of(12.5), sm_clock_mhz=2040, throttle="power", energy_mj=1.5)
    timing = replace(timing, terms={"tensor": 3.0, "l2": 4.5})
    return Evaluation(
        genome,
        PROBLEM,
        "l4",
        Basis.MEASURED,
        Status.CORRECT,
        Rung.DONE,
        reason="as fast as it gets",
        builds=(build, replace(build, compile_key=AttentionKey(64, "bf16", True, 4, "sm_89"))),
        verdicts=(Verdict(PROBLEM, True, 1e-4, 2e-2, 1e-5, 1.2, "fine"),),
        timings=(timing, timing_of(11.0, "hot")),
        score_us=12.5,
        bound="l2",
        model_version="2026.1",
        environment={"driver": "580.95"},
    )


def test_an_evaluation_comes_back_with_every_field_as_it_went_in(store: Store) -> None:
    evaluation, run = full_evaluation(), begin(store)
    proposal = Proposal(evaluation.genome, "widen_tile", ("0123456789abcdef",))
    store.add(run, evaluation, proposal)
    assert [(proposal, evaluation)] == store.history(run)


def test_outcomes_that_are_added_together_come_back_as_if_each_had_been_added_alone(store: Store) -> None:
    first, twin = evaluation_of(1, 10.0), replace(evaluation_of(2, 10.0), duplicate_of=genome_of(1).id)
    twin = replace(twin, timings=first.timings)
    outcomes = [
        (Proposal(each.genome), each) for each in (first, twin, full_evaluation(), evaluation_of(3, None))
    ]
    one_by_one, together = begin(store), begin(store, fresh=True)
    for proposal, evaluation in outcomes:
        store.add(one_by_one, evaluation, proposal)
    store.add_all(together, outcomes[:2])
    store.add_all(together, outcomes)  # two of them are there
    assert store.history(together) == store.history(one_by_one)
    assert [each for _, each in store.history(together)] == [each for _, each in outcomes]
    assert store.spent_budget(together) == 3


def test_of_outcomes_that_are_added_together_all_are_kept_or_none(store: Store) -> None:
    run, bad = begin(store), replace(evaluation_of(2, 10.0), duplicate_of="no genome has it")
    with pytest.raises(StoreError):
        store.add_all(run, [(Proposal(each.genome), each) for each in (evaluation_of(1, 10.0), bad)])
    assert store.history(run) == []


def test_a_reopened_database_returns_the_same_history(path: Path) -> None:
    with open_store(str(path)) as store:
        run = begin(store)
        put(store, run, full_evaluation())
        before = store.history(run)
    with open_store(str(path), read_only=True) as store:
        assert before == store.history(run)


def test_numbers_that_are_not_finite_survive_the_database(store: Store) -> None:
    verdict = Verdict(PROBLEM, False, math.nan, math.inf, 0.0, math.nan, "NaN in O")
    failed = replace(evaluation_of(1, None), status=Status.CORRECTNESS, verdicts=(verdict,))
    run = begin(store)
    put(store, run, failed)
    stored = store.history(run)[0][1].verdicts[0]
    assert math.isnan(stored.rel_l2)
    assert math.isnan(stored.honest_ratio)
    assert stored.max_over_rms == math.inf


def test_numpy_numbers_and_text_that_is_not_utf8_are_stored_as_plain_ones(store: Store) -> None:
    odd = replace(evaluation_of(1, None), reason="bad \udcff byte\0", score_us=None)
    odd_numbers: dict[str, Any] = {"median_us": np.float32(2.0), "n": np.int64(7)}
    timing = replace(timing_of(2.0), **odd_numbers)
    run = begin(store)
    put(store, run, replace(odd, timings=(timing,)))
    stored = store.history(run)[0][1]
    assert (
        stored.timings[0].median_us,
        stored.timings[0].n,
        stored.reason,
    ) == (2.0, 7, "bad \\udcff byte\\0")


def test_the_same_command_again_continues_its_run_and_raises_the_budget(store: Store) -> None:
    first, second = begin(store, budget=10), begin(store, budget=25)
    assert (first.id, 25) == (second.id, second.budget)


def test_a_smaller_budget_does_not_lower_the_stored_one(store: Store) -> None:
    begin(store, budget=10)
    assert begin(store, budget=5).budget == 10


def test_fresh_starts_the_next_number_and_is_continued_from_then_on(store: Store) -> None:
    first, second = begin(store), begin(store, fresh=True)
    assert (first.number, second.number) == (1, 2)
    assert begin(store) == second


def test_another_seed_is_another_run(store: Store) -> None:
    assert begin(store, seed=1).id != begin(store, seed=2).id


def test_a_changed_description_of_the_gpu_starts_another_run(store: Store) -> None:
    assert begin(store, gpu_hash="abc").id != begin(store, gpu_hash="def").id


def test_adding_the_same_genome_twice_stores_it_once(store: Store) -> None:
    run = begin(store)
    put(store, run, evaluation_of(1, 10.0))
    put(store, run, evaluation_of(1, 5.0))
    assert [evaluation.score_us for _, evaluation in store.history(run)] == [10.0]
    assert store.spent_budget(run) == 1


def test_history_keeps_the_order_of_the_proposals(store: Store) -> None:
    run = begin(store)
    for number in (3, 1, 2):
        put(store, run, evaluation_of(number, float(number)))
    assert [genome_of(n) for n in (3, 1, 2)] == [proposal.genome for proposal, _ in store.history(run)]


def with_duplicate(store: Store) -> tuple[Run, Evaluation]:
    run = begin(store)
    put(store, run, evaluation_of(1, 10.0))
    duplicate = replace(evaluation_of(2, 10.0), duplicate_of=genome_of(1).id)
    put(store, run, duplicate)
    return run, duplicate


def test_a_duplicate_costs_no_budget(store: Store) -> None:
    run, _ = with_duplicate(store)
    assert store.spent_budget(run) == 1


def test_a_duplicate_has_its_twins_outcome_and_its_own_build_in_the_history(store: Store) -> None:
    run, duplicate = with_duplicate(store)
    store.update_timings(run, genome_of(1).id, [timing_of(11.0, "final-cold")], 11.0)
    twin, stored = (evaluation for _, evaluation in store.history(run))
    assert (
        replace(twin, genome=duplicate.genome, builds=duplicate.builds, duplicate_of=twin.genome.id) == stored
    )
    assert store.proposal_count(run) == len(store.history(run)) == 2


def test_a_duplicate_is_no_row_of_the_leaderboard_view(store: Store) -> None:
    with_duplicate(store)
    assert [(genome_of(1).id,)] == store.query("SELECT genome_id FROM leaderboard", {})[1]


def test_best_prefers_a_measurement_to_a_faster_estimate(store: Store) -> None:
    put(store, begin(store, basis=Basis.ESTIMATED), evaluation_of(1, 1.0, basis=Basis.ESTIMATED))
    put(store, begin(store), evaluation_of(2, 10.0))
    best = store.best(PROBLEM, "l4")
    assert best is not None
    assert (best.basis, best.score_us) == (Basis.MEASURED, 10.0)


def test_best_of_one_basis_ignores_the_others(store: Store) -> None:
    put(store, begin(store), evaluation_of(2, 10.0))
    assert store.best(PROBLEM, "l4", basis=Basis.ESTIMATED) is None


def test_best_prefers_a_finalist_timed_again_to_a_faster_one_that_was_not(store: Store) -> None:
    run = begin(store)
    put(store, run, evaluation_of(1, 10.0))
    put(store, run, evaluation_of(2, 9.5))
    store.update_timings(run, genome_of(1).id, [timing_of(10.2, "final-cold")], 10.2)
    best = store.best(PROBLEM, "l4")
    assert best is not None
    assert (genome_of(1), 10.2) == (best.genome, best.score_us)


def test_the_best_of_a_run_follows_the_same_rule_and_ignores_other_runs(store: Store) -> None:
    run = begin(store)
    for number, score_us in ((1, 10.0), (2, 9.5)):
        put(store, run, evaluation_of(number, score_us))
    put(store, run, replace(evaluation_of(3, 1.0), timings=(timing_of(1.0, censored=True),)))
    put(store, begin(store, seed=2), evaluation_of(4, 1.0))
    store.update_timings(run, genome_of(1).id, [timing_of(10.2, "final-cold")], 10.2)
    best = store.best_of(run)
    assert best is not None
    assert best.score_us == 10.2
    assert store.best_of(begin(store, seed=3)) is None


def test_the_newest_history_is_that_of_the_run_begun_last(store: Store) -> None:
    assert store.newest_history() == []
    put(store, begin(store), evaluation_of(1, 10.0))
    put(store, begin(store, seed=2), evaluation_of(2, 9.0))
    assert [evaluation.genome for _, evaluation in store.newest_history()] == [genome_of(2)]


def test_a_censored_time_never_wins(store: Store) -> None:
    run = begin(store)
    put(store, run, replace(evaluation_of(1, 5.0), timings=(timing_of(5.0, censored=True),)))
    assert store.best(PROBLEM, "l4") is None


def test_a_screened_kernel_counts_as_an_evaluation_and_is_the_best_of_nothing(store: Store) -> None:
    run = begin(store)
    screened = replace(evaluation_of(1, 5.0), status=Status.SCREENED, rung=Rung.TIMING)
    screened = replace(screened, timings=(timing_of(5.0, "screen"),))
    twin = replace(screened, genome=genome_of(2), duplicate_of=screened.genome.id)
    for evaluation in (screened, twin):
        put(store, run, evaluation)
    assert (store.spent_budget(run), store.best(None, None), store.best_of(run)) == (1, None, None)
    assert store.query("SELECT * FROM leaderboard", {})[1] == []
    put(store, run, evaluation_of(3, 9.0))
    assert store.best_of(run) == evaluation_of(3, 9.0)
    back = [e for _, e in store.history(run)]
    assert [(e.status, e.learnt_us) for e in back[:2]] == [(Status.SCREENED, 5.0)] * 2
    assert back[0] == screened
    (summary,) = store.problems()
    assert (summary.evaluated, summary.correct) == (2, 1)


def test_best_without_a_problem_takes_the_newest_one(store: Store) -> None:
    put(store, begin(store), evaluation_of(1, 1.0))
    other = "b=1,h=8,hkv=8,sq=256,skv=256,d=64,dtype=fp16"
    key = RunKey(other, "l4", Basis.MEASURED, "evolution", 1)
    run = store.begin(key, gpu_hash="abc", budget=1, argv=[], environment={})
    put(store, run, replace(evaluation_of(2, 7.0), problem=other))
    best = store.best(None, None)
    assert best is not None
    assert other == best.problem


def test_timing_a_finalist_again_keeps_the_first_times_and_replaces_older_final_ones(store: Store) -> None:
    run = begin(store)
    put(store, run, evaluation_of(1, 10.0))
    for score_us in (11.0, 12.0):
        store.update_timings(run, genome_of(1).id, [timing_of(score_us, "final-cold")], score_us)
    stored = store.history(run)[0][1]
    assert [(t.protocol, t.median_us) for t in stored.timings] == [("cold", 10.0), ("final-cold", 12.0)]
    assert stored.score_us == 12.0


def test_timing_a_genome_again_that_the_run_never_saw_is_an_error(store: Store) -> None:
    run = begin(store)
    with pytest.raises(StoreError, match="no evaluation of 0123"):
        store.update_timings(run, "0123", [timing_of(1.0, "final-cold")], 1.0)


def test_an_estimate_by_a_new_model_stands_beside_the_old_one_and_is_the_one_that_counts(
    store: Store,
) -> None:
    run = begin(store, basis=Basis.ESTIMATED)
    old = evaluation_of(1, 5.0, basis=Basis.ESTIMATED)
    put(store, run, old)
    put(store, run, evaluation_of(2, 4.0, basis=Basis.ESTIMATED))
    put(store, run, replace(old, score_us=8.0, model_version="m2"))
    assert {5.0, 8.0} == {evaluation.score_us for evaluation in store.find(old.genome.id)}
    assert [evaluation.score_us for _, evaluation in store.history(run)] == [8.0, 4.0]
    assert [evaluation.score_us for evaluation in store.estimates(PROBLEM, "l4", 9)] == [8.0]
    assert store.spent_budget(run) == 2


def test_estimates_are_the_fastest_ones_and_never_measurements(store: Store) -> None:
    run = begin(store, basis=Basis.ESTIMATED)
    for number, score_us in ((1, 9.0), (2, 7.0), (3, 8.0)):
        put(store, run, evaluation_of(number, score_us, basis=Basis.ESTIMATED))
    put(store, begin(store), evaluation_of(4, 1.0))
    assert [evaluation.score_us for evaluation in store.estimates(PROBLEM, "l4", 2)] == [7.0, 8.0]


def test_find_takes_the_start_of_an_id_and_puts_measurements_first(store: Store) -> None:
    put(store, begin(store, basis=Basis.MEASURED), evaluation_of(1, 10.0))
    put(store, begin(store, basis=Basis.ESTIMATED), evaluation_of(1, 9.0, basis=Basis.ESTIMATED))
    put(store, begin(store), evaluation_of(2, 10.0))
    found = store.find(genome_of(1).id[:7].upper())
    assert [(e.basis, e.score_us) for e in found] == [(Basis.MEASURED, 10.0), (Basis.ESTIMATED, 9.0)]


def test_find_shows_a_duplicate_with_its_twins_outcome(store: Store) -> None:
    with_duplicate(store)
    assert [(genome_of(2), 10.0)] == [(e.genome, e.score_us) for e in store.find(genome_of(2).id)]


def test_a_wildcard_is_no_genome_id(store: Store) -> None:
    put(store, begin(store), evaluation_of(1, 10.0))
    assert store.find("%") == []


def test_baselines_come_back_fastest_first(store: Store) -> None:
    run = begin(store)
    slow = Baseline("sdpa_flash", PROBLEM, "l4", (timing_of(20.0),), 20.0, {"torch": "2.9"})
    fast = Baseline("fa2", PROBLEM, "l4", (timing_of(15.0),), 15.0)
    store.add_baseline(run, slow)
    store.add_baseline(run, fast)
    assert [fast, slow] == store.baselines(run)


def test_a_baseline_timed_again_has_the_new_score_and_both_protocols(store: Store) -> None:
    run = begin(store)
    store.add_baseline(run, Baseline("fa2", PROBLEM, "l4", (timing_of(15.0),), 15.0))
    store.add_baseline(run, Baseline("fa2", PROBLEM, "l4", (timing_of(16.0, "final-cold"),), 16.0))
    (stored,) = store.baselines(run)
    assert (stored.score_us, [t.protocol for t in stored.timings]) == (16.0, ["cold", "final-cold"])


def test_baselines_are_neither_history_nor_spent_budget(store: Store) -> None:
    run = begin(store)
    store.add_baseline(run, Baseline("fa2", PROBLEM, "l4", (timing_of(15.0),), 15.0))
    assert (store.history(run), store.spent_budget(run)) == ([], 0)


def test_problems_count_genomes_by_basis(store: Store) -> None:
    with_duplicate(store)
    put(store, begin(store), evaluation_of(3, None))
    (summary,) = store.problems()
    assert (summary.problem, summary.runs, summary.evaluated, summary.correct) == (PROBLEM, 1, 2, 1)


def test_an_evaluation_of_another_basis_is_refused(store: Store) -> None:
    run = begin(store)
    with pytest.raises(ValueError, match="does not belong"):
        put(store, run, evaluation_of(1, 10.0, basis=Basis.ESTIMATED))


def test_a_write_that_fails_halfway_stores_nothing_of_its_evaluation(store: Store) -> None:
    run = begin(store)
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        put(store, run, replace(evaluation_of(1, 10.0), duplicate_of="0123456789abcdef"))
    assert store.query("SELECT id FROM genomes", {})[1] == []
    assert store.history(run) == []


# ---- databases that cannot be used


def message_of(target: Path | str, *, read_only: bool = False) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(str(target), read_only=read_only)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_reader_names_the_missing_file_and_creates_nothing(path: Path) -> None:
    assert f"no database at {path}: run `evoflash search` first" in message_of(path, read_only=True)
    assert not path.exists()


def test_a_reader_refuses_a_database_without_results(path: Path) -> None:
    path.touch()
    assert "holds no evoflash results: run `evoflash search` first" in message_of(path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_database_is_named_and_left_alone(path: Path, read_only: bool) -> None:
    path.write_text("these are my holiday pictures\n" * 100)
    assert "is not a database: name another with --db" in message_of(path, read_only=read_only)
    assert path.read_text().startswith("these are my holiday")


def test_a_folder_is_no_database(tmp_path: Path) -> None:
    assert "is a folder: name a file" in message_of(tmp_path)


def test_a_database_under_a_file_cannot_be_created(path: Path) -> None:
    path.touch()
    assert "name another with --db" in message_of(path / "evoflash.db")


def test_a_folder_that_cannot_be_written_is_named() -> None:
    assert "/proc/self/evoflash.db cannot be opened" in message_of("/proc/self/evoflash.db")


def test_a_database_of_a_newer_evoflash_says_upgrade(path: Path) -> None:
    open_store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE evoflash_version SET version_num = '9001'")
    assert "written by a newer evoflash (revision 9001" in message_of(path)
    assert "upgrade evoflash" in message_of(path, read_only=True)


def test_another_programs_tables_are_not_overwritten(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (distance_km REAL)")
    assert "name another with --db" in message_of(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("runs",)]


def test_an_unknown_kind_of_database_is_one_line() -> None:
    assert "no driver for 'oracle9000' databases" in message_of("oracle9000://somewhere/name")


def test_a_password_is_not_shown() -> None:
    assert "secret" not in message_of("oracle9000://me:secret@somewhere/name")


def test_a_reader_cannot_write(path: Path) -> None:
    open_store(str(path)).close()
    with open_store(str(path), read_only=True) as store, pytest.raises(StoreError, match="cannot be written"):
        begin(store)


def test_a_database_on_a_read_only_medium_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(str(path)) as store:
        run = begin(store)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere else
    with open_store(str(path), read_only=True) as store:
        assert store.runs() == [run]
        assert not Path(f"{path}-shm").exists()


def test_a_locked_database_says_so_and_loses_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 50)
    with open_store(str(path)) as store:
        run = begin(store)
        put(store, run, evaluation_of(1, 10.0))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another process: wait"):
            put(store, run, evaluation_of(2, 9.0))
        assert store.spent_budget(run) == 1, "a reader does not wait for the writer"
        other.execute("ROLLBACK")
        put(store, run, evaluation_of(2, 9.0))
        assert store.spent_budget(run) == 2
        other.close()


def test_a_full_disk_says_so_and_keeps_what_was_stored(path: Path) -> None:
    with open_store(str(path)) as store:
        run = begin(store)
        put(store, run, evaluation_of(1, 10.0))

        @sa.event.listens_for(store.database.engine, "begin")
        def full(connection: sa.Connection) -> None:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")

        large = replace(evaluation_of(2, 9.0), reason="x" * 1_000_000)
        with pytest.raises(StoreError, match="disk is full: free some space"):
            put(store, run, large)
        assert store.spent_budget(run) == 1


def test_odd_characters_in_a_path_are_no_url(tmp_path: Path) -> None:
    path = tmp_path / "my results #1 50%?.db"
    open_store(str(path)).close()
    open_store(str(path), read_only=True).close()
    assert path.exists()


def test_a_sqlite_url_is_the_same_database_as_its_path(path: Path) -> None:
    with open_store(f"sqlite:///{path}") as store:
        run = begin(store)
    with open_store(str(path), read_only=True) as store:
        assert [run] == store.runs()


# ---- schema


def restored(path: Path, fixture: Path = FIXTURE) -> Path:
    connection = sqlite3.connect(path)
    packed = fixture.read_bytes()
    connection.executescript((lzma.decompress(packed) if fixture.suffix == ".xz" else packed).decode())
    connection.close()
    return path


def test_the_migrations_make_the_tables_that_the_code_uses(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, schema.metadata) == []


def test_the_newest_migration_is_the_revision_that_the_code_expects() -> None:
    assert max(path.name.split("_")[0] for path in (DB / "versions").glob("[0-9]*.py")) == schema.HEAD


def test_a_database_made_by_revision_0001_still_opens_with_its_results(path: Path) -> None:
    with open_store(str(restored(path))) as store:
        (run,) = store.runs()
        assert [evaluation.score_us for _, evaluation in store.history(run)] == [12.5, None, 12.5]
        assert [baseline.name for baseline in store.baselines(run)] == ["sdpa_flash"]
        keys = {build.compile_key.accumulate for _, e in store.history(run) for build in e.builds}
        assert keys == {"fp32"}


def test_a_database_made_by_revision_0002_gets_room_for_costs_and_energies(path: Path) -> None:
    with open_store(str(restored(path, FIXTURES / "store_0002.sql"))) as store:
        (run,) = store.runs()
        assert costs(store.database, run.id) == {}
        times = [timing for _, e in store.history(run) for timing in e.timings]
        assert {timing.energy_mj for timing in times} == {None}
        charge(store.database, run, ComputeCost(60.0, 90.0))
        assert costs(store.database, run.id) == {run.id: ComputeCost(60.0, 90.0)}


def test_a_database_made_by_revision_0004_goes_on_and_notes_how_its_runs_end(path: Path) -> None:
    with open_store(str(restored(path, FIXTURES / "store_0004.sql.xz"))) as store:
        (run,) = store.runs()
        assert (run.ended, run.ends, len(store.history(run))) == ("", "", 2)
        store.note_limits(run, ended="time")
        (again,) = store.runs()
        assert again == replace(run, ended="time")
        assert check_database(store.database).findings == ()


def profile_of(us: float) -> KernelProfile:
    launch = LaunchCounters(
        "k", us, 1.7, 8, 128, 40, {"dram": 0.4}, 0.9, 4.0, 9.5, {"wait": 1.0}, {"FFMA": 7}
    )
    return KernelProfile({PROBLEM: (launch,)}, "2026-11-27T08:00:00+00:00", "Nsight Compute 2025.1")


def test_a_database_made_by_revision_0005_goes_on_and_keeps_exchanges_and_hardware_counters(
    path: Path,
) -> None:
    with open_store(str(restored(path, FIXTURES / "store_0005.sql.xz"))) as store:
        (run,) = store.runs()
        assert (run.key.llm, run.start.llm_trials, len(store.history(run))) == ("", 0, 2)
        edits = (
            JudgedEdit("0" * 16, {"a": "\ud800\0"}, "unknown gene", "a"),
            JudgedEdit("", {}, "malformed"),
        )
        kept = Exchange("m", 8, 9, "answered", {"model": "m"}, ("0" * 16,), "{}", 1.5, 0.25, edits)
        for status in ("answered", "HTTP 502"):
            keep_exchange(store.database, run, replace(kept, status=status))
        first, second = read_exchanges(store.database, run)
        assert (first, second.status) == (kept, "HTTP 502")
        assert check_database(store.database).findings == ()
        other = store.begin(replace(run.key, llm="m:full"), gpu_hash="abc", budget=1, argv=[], environment={})
        assert (other.id, other.number) == (run.id + 1, 1)
        assert read_exchanges(store.database, other) == []
        genome, (problem, gpu) = store.history(run)[0][1].genome.id, (run.key.problem, run.key.gpu)
        assert newest_run_with(store.database, genome, problem, gpu) == run.id
        for us in (9.0, 7.5):
            keep_profile(store.database, run.id, genome, profile_of(us))
        assert read_profile(store.database, genome, problem, gpu) == profile_of(7.5)
        assert read_profile(store.database, genome, problem, "l40s") is None
        assert check_database(store.database).findings == ()
        assert delete(store.database, run) == 2
        for table in ("exchanges", "profiles"):
            assert store.query(f"SELECT count(*) FROM {table}", {})[1] == [(0,)]


def test_a_database_made_by_revision_0006_goes_on_and_keeps_kernels_whose_text_was_edited(path: Path) -> None:
    with open_store(str(restored(path, FIXTURES / "store_0006.sql.xz"))) as store:
        (run,) = store.runs()
        (_, first), (_, failed) = store.history(run)
        assert (first.genome.edits, first.score_us, failed.score_us) == ((), 12.5, None)
        child = replace(first.genome, edits=(("a\n", 'b "\\\u00e9'), ("b", "")))
        edit = JudgedEdit(first.genome.id, {}, "valid", child=child.id)
        (kept,) = read_exchanges(store.database, run)
        keep_exchange(store.database, run, replace(kept, edits=(edit,)))
        made = replace(first, genome=child, score_us=11.0, timings=(timing_of(11.0),))
        store.add(run, made, Proposal(child, MODEL_EDIT, (first.genome.id,)))
        assert store.history(run)[-1][0].genome == child
        assert store.best_of(run).genome == child
        assert check_database(store.database).findings == ()
        (origin,) = read_origins(store, child.id)
        assert (origin.llm, origin.request) == ("m:full", 2)
        assert read_origins(store, first.genome.id) == ()
        board = store.query("SELECT genome_id, llm, llm_request FROM leaderboard ORDER BY rank", {})[1]
        assert board == [(child.id, "m:full", 2), (first.genome.id, None, None)]


NEAR = "b=1,h=8,hkv=8,sq=1024,skv=1024,d=64,dtype=fp16"
# What the searches of store_0003.sql are called there, and the fields that say the same.
SEARCHES = {
    name: RunKey(**{"problem": PROBLEM, **key, "basis": Basis(key["basis"])})
    for name, key in data(__file__, "SEARCHES").items()
}


@pytest.fixture
def of_0003(path: Path) -> Path:
    return restored(path, FIXTURES / "store_0003.sql.xz")


def selected(path: Path, query: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def test_a_database_made_by_revision_0003_ranks_and_reports_as_before(of_0003: Path) -> None:
    names = [name for (name,) in selected(of_0003, "SELECT name FROM pragma_table_info('leaderboard')")]
    same = ", ".join(name for name in names if name not in ("p10_us", "p90_us", "n"))
    ranked = selected(of_0003, f"SELECT {same} FROM leaderboard")
    noted = selected(of_0003, "SELECT id, strategy, environment_json FROM runs ORDER BY id DESC")
    with open_store(str(of_0003)) as store:
        assert store.query(f"SELECT {same} FROM leaderboard", {})[1] == ranked
        spread = "SELECT DISTINCT p10_us, p90_us, n FROM leaderboard WHERE basis = 'estimated'"
        assert set(store.query(spread, {})[1]) == {(None, None, 0)}
        runs = store.runs()
        assert [(run.id, run.key.search_name) for run in runs] == [(at, name) for at, name, _ in noted]
        for run, (_, _, environment) in zip(runs, noted, strict=True):
            said = collect(store.database, store, run).run.environment
            assert list(said.items()) == [
                each for each in json.loads(environment).items() if each[0] != "final_pairs"
            ]
        assert {key for run in runs for key in run.environment} == {"driver", "python"}
        assert check_database(store.database).findings == ()


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.sample(4)
def test_a_search_finds_its_run_in_a_database_made_by_revision_0003(of_0003: Path, name: str) -> None:
    ids = selected(of_0003, f"SELECT max(id) FROM runs WHERE strategy = '{name}'")
    key = SEARCHES[name]
    with open_store(str(of_0003)) as store:
        run = store.begin(key, gpu_hash="abc", budget=20, argv=[], environment={})
        assert [(run.id,)] == ids
        assert (run.key, run.key.search_name) == (key, name)
        assert store.history(run)


def test_what_revision_0003_noted_in_the_environment_of_a_run_is_its_fields(of_0003: Path) -> None:
    with open_store(str(of_0003)) as store:
        near, run = store.runs()[-1], store.runs()[-2]
        assert run.start == RunStart(
            archive=("f6798993a1d97017", "119a34d726faf439"),
            learns_from=(EarlierRun(NEAR, near.key.search_name, near.key.seed, near.created, 2),),
            learns_from_shipped=("b=1,h=8,hkv=8,sq=256,skv=256,d=64,dtype=fp16",),
            ahead=4,
            machines="GPUs 0,1",
        )
        assert (run.name, run.objectives, run.argv) == (
            "the good one",
            "latency,registers",
            ("search", "--gpu", "h200"),
        )
        assert [pair["second"] for pair in run.final_pairs] == ["27e938464275a55d", "sdpa_flash"]
        assert (near.start, near.name, near.objectives) == (RunStart(), "", "")
        keys = {build.compile_key for _, e in store.history(run) for build in e.builds}
        assert keys == {AttentionKey(64, "fp16", False, 1, "sm_90a")}


def test_the_upgrade_leaves_the_keys_of_tables_and_views_of_ones_own_whole(of_0003: Path) -> None:
    with sqlite3.connect(of_0003) as connection:
        connection.execute("CREATE VIEW mine AS SELECT id, seed FROM runs")
        connection.execute("UPDATE runs SET environment_json = 'x' WHERE id = 1")
    with open_store(str(of_0003)) as store:
        assert len(store.query("SELECT * FROM mine", {})[1]) == 9
        assert store.query("PRAGMA foreign_key_check", {})[1] == []
        (found,) = check_database(store.database).findings
        assert (found.table, found.row) == ("runs", "1")
        assert "environment_json is no JSON" in found.what
        with pytest.raises(StoreError, match="FOREIGN KEY"):
            store.database.write(
                lambda c: c.exec_driver_sql("UPDATE lineage SET run_id = 99 WHERE run_id = 6")
            )


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_database_upgrades_itself_when_opened(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    shutil.copytree(DB, tmp_path / "50% db", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "50% db" / "versions" / "9000_mood.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9000', '{schema.HEAD}'\n"
        "def upgrade():\n    with op.batch_alter_table('runs') as table:\n"
        "        table.add_column(sa.Column('mood', sa.Text, server_default='good'))\n"
    )
    monkeypatch.setattr(database, "DB", tmp_path / "50% db")
    monkeypatch.setattr(database, "HEAD", "9000")
    with open_store(str(restored(path)), read_only=read_only) as store:
        assert store.query("SELECT mood FROM runs", {})[1] == [("good",)]
        assert store.query("SELECT version_num FROM evoflash_version", {})[1] == [("9000",)]
        assert store.best(PROBLEM, "l4") is not None


def test_a_new_file_is_to_the_letter_what_its_migrations_make(path: Path, tmp_path: Path) -> None:
    with sa.create_engine(f"sqlite:///{tmp_path / 'migrated.db'}").begin() as connection:
        database._migrate(connection)
    open_store(str(path)).close()
    made, migrated = (tables_of(each) for each in (path, tmp_path / "migrated.db"))
    assert made == migrated
    assert len(made) > 8


def tables_of(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE type <> 'view' ORDER BY rowid"
        version = connection.execute(f"SELECT * FROM {schema.VERSION_TABLE}").fetchall()
        return [*connection.execute(query), *version]


def test_an_up_to_date_database_opens_without_importing_alembic(path: Path) -> None:
    open_store(str(path)).close()
    code = "import sys, evoflash.store.store as s; s.open_store(sys.argv[1]); print('alembic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True, cwd=DB.parent
    )
    assert done.stdout == "False\n"


def view_of(path: Path) -> str:
    connection = sqlite3.connect(path)
    (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'leaderboard'").fetchone()
    connection.close()
    return str(sql)


def test_the_view_is_the_sql_file_and_is_renewed_when_it_differs(path: Path) -> None:
    open_store(str(path)).close()
    fresh = view_of(path)
    assert (DB / "leaderboard.sql").read_text().strip().removesuffix(";") in fresh
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP VIEW leaderboard; CREATE VIEW leaderboard AS SELECT 1 AS rank")
    open_store(str(path)).close()
    assert fresh == view_of(path)


# ---- several processes

WRITER = data(__file__, "WRITER")


def writer(path: Path, seed: int, count: int) -> "subprocess.Popen[str]":
    return python_processes.python("-c", WRITER, path, seed, count, stderr=None)


@pytest.mark.slow
def test_kill_9_loses_nothing_that_was_acknowledged(path: Path) -> None:
    open_store(str(path)).close()
    acknowledged: set[int] = set()
    pauses = random.Random(7)  # in rows that a writer acknowledges before it is killed
    for _ in range(2):
        child = writer(path, 1, 100_000)
        assert child.stdout is not None
        acknowledged.update(int(child.stdout.readline()) for _ in range(pauses.randint(1, 20)))
        child.send_signal(signal.SIGKILL)
        acknowledged.update(int(line) for line in child.stdout.read().splitlines() if line)
        child.wait()
        child.stdout.close()
    with open_store(str(path)) as store:
        assert store.query("PRAGMA integrity_check", {})[1] == [("ok",)]
        assert store.query("PRAGMA foreign_key_check", {})[1] == []
        stored = {evaluation.genome for _, evaluation in store.history(begin(store))}
    assert {genome_of(number) for number in acknowledged} <= stored
    assert len(stored) - len(acknowledged) <= 2, "at most one commit per kill was not yet acknowledged"


@pytest.mark.full
def test_processes_that_create_and_write_one_database_at_once_lose_nothing(path: Path) -> None:
    children = [writer(path, seed, 10) for seed in (1, 2, 3)]
    assert [len(child.communicate()[0].split()) - 10 for child in children] == [0, 0, 0]
    with open_store(str(path), read_only=True) as store:
        assert [store.spent_budget(run) for run in store.runs()] == [10, 10, 10]


def test_a_rejected_finalist_ranks_nowhere(store: Store) -> None:
    run, evaluation = begin(store), evaluation_of(1, 5.0)
    put(store, run, evaluation)

    store.reject(run, evaluation.genome.id, rung=Rung.TIMING, reason="wrong at b=0")

    assert store.best_of(run) is None
    ((_, again),) = store.history(run)
    assert (again.status, again.reason, again.score_us) == (Status.CORRECTNESS, "wrong at b=0", None)


@table_of_cases(tuples=True)
def test_a_run_is_final_when_its_best_was_timed_again(
    store: Store, basis: Basis, protocols: tuple[str, ...], is_final: bool
) -> None:
    run = begin(store, basis=basis)
    put(
        store,
        run,
        replace(evaluation_of(1, 5.0, basis=basis), timings=tuple(timing_of(5.0, p) for p in protocols)),
    )

    assert _is_final(store, run) is is_final


def test_a_postgresql_url_without_the_driver_says_which_extra_installs_it(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(
        StoreError, match=r"no driver for 'postgresql' databases: pip install \"psycopg\[binary\]>=3.1\""
    ):
        database.open_database("postgresql://host/kernels")


def test_a_home_that_there_is_not_is_a_folder_like_any_other(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(StoreError, match=r"no database at .*~no_such_user"):
        database.open_database("~no_such_user/a.db", read_only=True)
