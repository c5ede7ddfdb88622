"""When a search ends, and what is said of it meanwhile: limits, resuming with them, progress."""

import re
import time
from dataclasses import replace
from itertools import islice

import pytest
from places import FIXTURES
from strategy_cases import SPACE, evaluated
from tables import table_of_cases

from evoflash.app.search.limits import Limits, floor_us, is_near, limits
from evoflash.app.search.recorded import search_recording
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Proposal, Status, Timing
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views.progress import Progress

FIXTURE = FIXTURES / "recorded.json.gz"
GENOMES = list(islice(SPACE, 40))
UNLIMITED = dict.fromkeys(("budget", "time_limit_s", "minutes", "until"))


@table_of_cases()
def test_minutes_and_until_lift_the_budget_unless_it_is_given(given, expected) -> None:
    assert limits(**UNLIMITED | given) == Limits(**{"budget": None} | expected)


@table_of_cases()
def test_a_limit_that_makes_no_sense_is_the_users_mistake(given, words) -> None:
    with pytest.raises(UsageError, match=words):
        limits(**UNLIMITED | given)


def test_the_floor_of_a_problem_is_the_mean_of_its_workloads_floors() -> None:
    gpu = load_gpu("h200")
    problem = parse_problem("b=4,h=32,hkv=8,sq=1,skv=12288,d=128")
    (workload,) = problem.workloads

    # K and V once, each 4 x 8 x 12,288 x 128 elements of two bytes, beside which Q and O are nothing.
    assert floor_us(problem, gpu) == pytest.approx(
        2 * 4 * 8 * 12288 * 128 * 2 / (gpu.dram_gbps * 1e3), rel=1e-3
    )
    assert floor_us(problem, gpu) == pytest.approx(gpu.floor_us(workload.flops, workload.bytes_moved))


def test_near_the_floor_are_only_correct_kernels_whose_timing_was_finished() -> None:
    right = evaluated(GENOMES[0], 10.0)

    assert is_near(right, 9.5, 0.95)
    assert not is_near(right, 9.4, 0.95)
    assert not is_near(right, 9.5, None)
    assert not is_near(None, 9.5, 0.95)
    assert not is_near(replace(right, status=Status.SCREENED), 9.5, 0.95)
    bound = Timing("w", "cold", 10.0, 10.0, 10.0, 1, censored=True)
    assert not is_near(replace(right, timings=(bound,)), 9.5, 0.95)


def test_a_run_keeps_the_most_evaluations_that_were_asked_for_and_none_where_time_was(tmp_path) -> None:
    path = tmp_path / "a.db"

    def continued(asked: Limits) -> tuple[int, int]:
        result = search_recording(
            FIXTURE, str(path), strategy="uniform", seed=0, limits=asked, fresh=False, argv=[]
        )
        with open_store(str(path), read_only=True) as store:
            return result.spent, store.runs()[0].budget

    assert continued(Limits(None, 1e-9)) == (0, 0)
    assert continued(Limits(12)) == (12, 12)
    assert continued(Limits(None, 1e-9)) == (12, 12)  # the same run, and no more of it
    assert continued(Limits(5)) == (12, 12)


# ---- progress


def shown(monkeypatch, capsys, asked: Limits, *, terminal: bool, basis=Basis.MEASURED) -> str:
    """What stands on stderr after a seed, better ones, screened ones, failures and a duplicate."""
    monkeypatch.setenv("COLUMNS", "80")
    if terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("NO_COLOR", "1")
    clock = iter(range(1_000))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with Progress("flash_mma, flash_simt, flash_wgmma, flash_wmma for h200", basis, asked, []) as progress:
        progress.show(Proposal(GENOMES[0], "seed"), evaluated(GENOMES[0], 12345.678))
        for genome in GENOMES[1:10]:
            progress.show(Proposal(genome, "sample"), evaluated(genome, 11111.111))
        for genome in GENOMES[10:30]:
            one = replace(evaluated(genome, 1.0), status=Status.SCREENED)
            progress.show(Proposal(genome, "sample"), one)
        for genome in GENOMES[30:39]:
            progress.show(Proposal(genome, "sample"), evaluated(genome, None))
        progress.show(Proposal(GENOMES[39]), evaluated(GENOMES[39], 2.0, duplicate_of=GENOMES[0].id))
    return capsys.readouterr().err


def test_no_rate_is_told_of_the_first_few_which_wait_for_processes_to_start(monkeypatch, capsys) -> None:
    clock = iter([0.0, 100.0, *range(200, 900)])
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    with Progress("flash_mma for h200", Basis.MEASURED, Limits(200), []) as progress:
        progress.show(Proposal(GENOMES[0], "seed"), evaluated(GENOMES[0], 12.0))
        progress.show(Proposal(GENOMES[1], "seed"), evaluated(GENOMES[1], 12.0))
    assert "left" not in capsys.readouterr().err


def test_lines_say_rate_time_left_best_seed_best_now_and_what_was_not_correct(monkeypatch, capsys) -> None:
    lines = shown(monkeypatch, capsys, Limits(200, 6000.0), terminal=False).splitlines()

    text = " ".join(line.strip() for line in lines[-2:])
    assert text.startswith("evoflash: 39/200 at ")
    assert "/s, " in text
    assert " left; best 2.00 us, seed 12345.68; " in text
    assert text.endswith("20 screened, 9 failed")
    assert all(len(line) <= 80 for line in lines)
    assert any(line.startswith("evoflash: 1") for line in lines[:-2])  # every ten seconds


def test_an_estimate_keeps_its_mark_and_no_budget_is_no_budget(monkeypatch, capsys) -> None:
    text = shown(monkeypatch, capsys, Limits(None, None, 0.9), terminal=False, basis=Basis.ESTIMATED)

    assert "evoflash: 39 at " in text
    assert "best ~2.00 us, seed ~12345.68" in text
    assert " left" not in text  # nobody knows


def test_the_bar_fits_a_terminal_of_eighty_columns(monkeypatch, capsys) -> None:
    drawn = shown(monkeypatch, capsys, Limits(200), terminal=True)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn)
    bars = [line for line in plain.replace("\r", "\n").splitlines() if "39/200" in line]

    assert bars
    assert "best 2.00 us  seed 12345.68" in bars[-1]
    assert all(len(line.rstrip()) <= 80 for line in bars)
