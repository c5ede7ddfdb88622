"""What a run took of GPU and CPU: noted however it ends, added up, shown in money where a price is given."""

import json
import os
import subprocess
import sys
import time

import pytest
from waiting import until

from evoflash import isolation
from evoflash.app.runs import cost_as_dict, parse_price
from evoflash.app.search import session
from evoflash.app.search.limits import Limits
from evoflash.app.search.session import Meter, counting, result_of
from evoflash.app.search.stopping import TerminatedError
from evoflash.cli import program as cli
from evoflash.errors import StoreError, UsageError
from evoflash.evaluation import Basis, RunKey
from evoflash.store.run_edits import merge
from evoflash.store.run_status import ComputeCost, charge, costs
from evoflash.store.store import open_store
from evoflash.views.runs import cost_in_words, minutes

PROBLEM = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "evoflash.db")


@pytest.fixture
def store(db):
    with open_store(db) as opened:
        yield opened


def begin(store, basis=Basis.MEASURED, seed=1):
    key = RunKey(PROBLEM, "l4", basis, "evolution", seed)
    return store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})


def burn(seconds):
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


def took(store, run):
    return costs(store.database, run.id)[run.id]


def test_a_run_that_nobody_charged_has_no_cost(store) -> None:
    run = begin(store)
    assert costs(store.database) == {}
    assert result_of(store, run).cost is None


def test_charges_add_up_and_stay_with_their_run(store) -> None:
    run, other = begin(store), begin(store, seed=2)
    charge(store.database, run, ComputeCost(60.0, 90.0))
    charge(store.database, run, ComputeCost(30.0, 10.0))
    charge(store.database, other, ComputeCost(1.0, 2.0))

    assert costs(store.database) == {run.id: ComputeCost(90.0, 100.0), other.id: ComputeCost(1.0, 2.0)}


def test_a_command_charges_the_cpu_that_it_burnt_and_the_gpu_while_it_had_it(store) -> None:
    run = begin(store)
    begun = time.monotonic()
    with counting(store, run, Limits(budget=9)):
        burn(0.3)
    lasted = time.monotonic() - begun

    assert took(store, run).cpu_s >= 0.3
    assert 0.3 <= took(store, run).gpu_s <= lasted


def test_processes_that_a_command_started_and_saw_end_are_charged(store) -> None:
    run = begin(store)
    with counting(store, run, Limits(budget=9)):
        child = os.fork()
        if child == 0:
            burn(0.3)
            os._exit(0)
        os.waitpid(child, 0)
    assert took(store, run).cpu_s >= 0.2  # clocks of two processes, and hundredths of a second


def test_while_a_command_runs_its_processes_and_workers_elsewhere_are_charged(store, monkeypatch) -> None:
    monkeypatch.setattr(session, "_NOTE_EVERY_S", 0.0)
    run, elsewhere_s, begun_s = begin(store), iter([5.0, 65.0, 65.0, 65.0]), isolation.cpu_seconds()
    with counting(store, run, Limits(budget=9), lambda: next(elsewhere_s)) as meter:
        child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            until(lambda: isolation.cpu_seconds() - begun_s > 0.3, what="the child has worked")
            meter.note_now_and_then()
            assert 60.1 <= took(store, run).cpu_s < 75, "neither is at its end"
        finally:
            child.kill()
            child.wait()


def test_a_search_without_a_gpu_costs_none_of_it(store) -> None:
    run = begin(store, Basis.ESTIMATED)
    with counting(store, run, Limits(budget=9)):
        burn(0.05)
    assert took(store, run).gpu_s == 0


def stopped_by(end, store, run):
    with counting(store, run, Limits(budget=9)):
        burn(0.05)
        raise end


@pytest.mark.parametrize("end", [KeyboardInterrupt, TerminatedError, RuntimeError])
def test_a_command_that_is_stopped_or_fails_is_charged(end, store) -> None:
    run = begin(store)
    with pytest.raises(end):
        stopped_by(end, store, run)
    assert took(store, run).cpu_s >= 0.05


def forbid_writing(store):
    """From now on the database refuses."""
    with store.database.reading() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")


def test_what_cannot_be_noted_does_not_hide_why_a_command_ended(store, caplog) -> None:
    run = begin(store)
    forbid_writing(store)
    with pytest.raises(RuntimeError):
        stopped_by(RuntimeError, store, run)
    assert "could not be noted" in caplog.text


def test_what_cannot_be_noted_at_the_end_is_a_store_error(store) -> None:
    run = begin(store)
    forbid_writing(store)
    with pytest.raises(StoreError), counting(store, run, Limits(budget=9)):
        pass


def test_two_notes_charge_nothing_twice(store) -> None:
    run = begin(store)
    meter = Meter(store.database, run)
    burn(0.1)
    meter.note()
    first = took(store, run)
    meter.note()
    assert took(store, run).cpu_s - first.cpu_s < 0.1
    meter.note_now_and_then()  # within the half minute: nothing
    assert first.cpu_s >= 0.1


def test_a_merged_run_keeps_its_cost(store, tmp_path) -> None:
    with open_store(str(tmp_path / "other.db")) as other:
        charge(other.database, begin(other), ComputeCost(60.0, 120.0))
        merge(store.database, other.database)
    assert list(costs(store.database).values()) == [ComputeCost(60.0, 120.0)]


# ---- in words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "0"), (1.0, "0.02"), (3.0, "0.05"), (24.0, "0.4"), (745.0, "12.4"), (18600.0, "310")],
)
def test_minutes_have_the_digits_that_matter(seconds, words) -> None:
    assert minutes(seconds) == words


def test_money_is_of_gpu_hours_and_said_where_there_was_a_gpu() -> None:
    assert cost_in_words(ComputeCost(1800.0, 60.0), 3.5) == (
        "30.0 GPU minutes, 1.0 CPU minutes; 1.75 at 3.50 for a GPU hour"
    )
    assert cost_in_words(ComputeCost(0.0, 60.0), 3.5) == "1.0 CPU minutes"
    assert cost_in_words(None, 3.5) == ""


def test_json_has_minutes_and_with_a_price_the_money() -> None:
    assert cost_as_dict(ComputeCost(1800.0, 60.0)) == {"gpu_minutes": 30.0, "cpu_minutes": 1.0}
    assert cost_as_dict(ComputeCost(1800.0, 60.0), 3.5)["price"] == 1.75
    assert cost_as_dict(None, 3.5) == {
        "gpu_minutes": None,
        "cpu_minutes": None,
        "price_per_hour": 3.5,
        "price": None,
    }


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_what_is_no_price_is_refused(price) -> None:
    with pytest.raises(UsageError, match="--price-per-hour"):
        parse_price(price)


@pytest.fixture
def printed(db, store, capsys):
    """What a command prints of a run of half an hour on the GPU."""
    charge(store.database, begin(store), ComputeCost(1800.0, 600.0))

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.run_command([*arguments, "--db", db])
        assert ended.value.code == 0
        return capsys.readouterr().out

    return call


def test_status_and_runs_say_what_a_run_took(printed) -> None:
    assert "30.0 GPU minutes, 10.0 CPU minutes" in printed("status")
    assert "1.75 at 3.50" in printed("status", "--price-per-hour", "3.50")
    assert "GPU min" in printed("runs")
    (told,) = json.loads(printed("runs", "--json", "--price-per-hour", "3.50"))["runs"]
    assert (told["gpu_minutes"], told["cpu_minutes"], told["price"]) == (30.0, 10.0, 1.75)


def test_the_price_can_be_set_once_for_all_commands(printed, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("EVOFLASH_PRICE_PER_HOUR", "2")
    assert "1.00 at 2.00" in printed("status")
    monkeypatch.delenv("EVOFLASH_PRICE_PER_HOUR")
    monkeypatch.setenv("EVOFLASH_CONFIG", str(tmp_path / "evoflash.toml"))
    (tmp_path / "evoflash.toml").write_text("price-per-hour = 4\n")
    assert "2.00 at 4.00" in printed("status")


@pytest.mark.parametrize("text", ["cheap", ""])
def test_a_price_that_is_no_number_is_refused(text, monkeypatch, tmp_path, db, capsys) -> None:
    monkeypatch.setenv("EVOFLASH_CONFIG", str(tmp_path / "evoflash.toml"))
    (tmp_path / "evoflash.toml").write_text(f'price-per-hour = "{text}"\n')
    assert cli.run_command(["status", "--db", db]) == 2
    assert "write a number" in capsys.readouterr().err


def test_what_a_process_below_takes_is_counted_while_it_runs(store) -> None:
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ninput()"
    below = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])"
    run = begin(store, Basis.ESTIMATED)
    with subprocess.Popen([sys.executable, "-c", below], stdin=subprocess.PIPE) as child:
        with counting(store, run, Limits(budget=9)) as meter:
            until(lambda: (meter.note(), took(store, run).cpu_s > 0.3)[1], what="its seconds are counted")
        assert child.poll() is None
        child.communicate(b"\n")


def test_what_workers_elsewhere_take_is_added(store) -> None:
    run, said = begin(store, Basis.ESTIMATED), iter((10.0, 12.5, 12.5))
    with counting(store, run, Limits(budget=9), lambda: next(said)) as meter:
        meter.note()
    assert 2.5 <= took(store, run).cpu_s < 3.5


def test_what_was_noted_stays_where_a_count_goes_back(store) -> None:
    run, said = begin(store, Basis.ESTIMATED), iter((0.0, 500.0, 0.0))
    with counting(store, run, Limits(budget=9), lambda: next(said)) as meter:
        meter.note()
    assert 500.0 <= took(store, run).cpu_s < 501.0
