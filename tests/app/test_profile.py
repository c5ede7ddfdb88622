"""A kernel's counters are read after a search, stored beside its run, and shown wherever the kernel is."""

import json
import sqlite3
from pathlib import Path

import pytest
import report_cases as cases

from evoflash.app.kernel_lookup import known_kernel
from evoflash.app.profile import ProfiledKernel, profile_finalists
from evoflash.app.report.collect import report
from evoflash.app.search.session import result_of
from evoflash.errors import StoreError
from evoflash.evaluation import Run
from evoflash.notices import heard_by
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.profiles import read_profile
from evoflash.store.store import Store, open_store
from evoflash.views.html.report import html
from evoflash.views.kernel import describe, describe_profile, describe_result
from tests.gpu.test_counters import copy_pages, put, stand_in

BINDS = "counters  Bound by latency: no unit is full (the L2 cache 44% and DRAM 38%, so at most 2.3 times"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with open_store(str(tmp_path / "evoflash.db")) as store:
        cases.fill(store)
    return tmp_path / "evoflash.db"


def profiled(store: Store) -> tuple[Run, list[str]]:
    """The run, and what was said."""
    said: list[str] = []
    run = store.runs()[-1]
    with heard_by(said.append):
        profile_finalists(store, run, parse_problem(cases.MISSION), load_gpu("h200"))
    return run, said


def test_the_finalists_of_a_search_are_profiled_once_and_their_counters_shown(
    path, tmp_path, monkeypatch
) -> None:
    program = stand_in(tmp_path, monkeypatch)
    put(program, 'touch "$report"')
    copy_pages(program)
    with open_store(str(path)) as store:
        run, said = profiled(store)
        best = store.best_of(run)
        assert best is not None
        history = [each for _, each in store.history(run) if not each.duplicate_of]
        finalists = [each.genome.id for us in (12.5, 12.6) for each in history if each.score_us == us]
        assert [words.split()[-4] for words in said] == finalists
        assert finalists[0] == best.genome.id
        assert profiled(store)[1] == []
        result = result_of(store, run)
        counters = read_profile(store.database, best.genome.id, cases.MISSION, "h200")
    assert counters is not None
    assert result.counters == counters
    assert result.as_dict()["counters"]["limit"] == "latency"
    assert BINDS in describe_result(result)
    kernel = known_kernel(best.genome.id, str(path), run=str(run.id))
    assert BINDS in describe(kernel)
    assert kernel.as_dicts()[0]["counters"] == json.loads(json.dumps(counters.as_dict()))
    text = describe_profile(ProfiledKernel(best.genome.id, cases.MISSION, "h200", counters, "dram", 12.5, 1))
    assert "model     guesses dram" in text
    assert "stored    with run 1; times under Nsight Compute 2025.3.1.0 rank nothing" in text
    (roofline,) = report(str(path), str(run.id)).as_dict()["rooflines"]
    assert [launch["kernel"] for launch in roofline["counters"]] == ["linear_mma", "decode_mma", "flash_mma"]
    page = html(json.loads(json.dumps(report(str(path), str(run.id)).as_dict())))
    assert "More copies in flight, asked for earlier" in page
    assert "global or L2 memory" in page


def test_a_profiler_that_fails_costs_a_search_nothing_but_a_line(path, tmp_path, monkeypatch) -> None:
    put(stand_in(tmp_path, monkeypatch), "echo '==ERROR== ERR_NVGPUCTRPERM - no permission'; exit 1")
    with open_store(str(path)) as store:
        before = store.history(store.runs()[-1])
        run, said = profiled(store)
        assert len(said) == 2
        assert said[1].startswith("no counters: this user may not read the GPU's counters: run as root")
        assert store.history(run) == before
        assert result_of(store, run).counters is None
    page = html(json.loads(json.dumps(report(str(path), str(run.id)).as_dict())))
    assert "Its hardware counters were not read." in page


def test_counters_that_somebody_edited_are_said_to_be_damaged(path, tmp_path, monkeypatch) -> None:
    program = stand_in(tmp_path, monkeypatch)
    put(program, 'touch "$report"')
    copy_pages(program)
    with open_store(str(path)) as store:
        profiled(store)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE profiles SET profile_json = '{\"launches\": 3}'")
    connection.close()
    with pytest.raises(StoreError, match="row 1 of its table profiles is damaged"):
        report(str(path), "1")
