"""Why a search ended: at a limit that was asked for it is finished, and only what was stopped is not."""

from datetime import UTC, datetime

import pytest

from evoflash.app.runs import state
from evoflash.app.search.limits import Limits
from evoflash.app.search.session import noting_end
from evoflash.evaluation import Basis, RunKey
from evoflash.store.run_status import standings
from evoflash.store.store import open_store


@pytest.fixture
def stored(tmp_path):
    with open_store(str(tmp_path / "evoflash.db")) as store:
        key = RunKey("b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16", "l4", Basis.ESTIMATED, "evolution", 1)
        run = store.begin(key, gpu_hash="abc", budget=0, argv=[], environment={})
        yield store, run


def test_a_search_whose_time_is_over_is_finished(stored) -> None:
    store, run = stored
    with noting_end(store, run, Limits(budget=None, seconds=1e-9)):
        (standing,) = standings(store.database)
        assert standing.run.ended == ""
        assert standing.left_s == 0.0

    (standing,) = standings(store.database)
    assert (standing.run.ended, standing.run.ends) == ("time", "")
    assert state(standing) == "finished"


def test_a_search_says_how_much_of_its_time_is_left(stored) -> None:
    store, run = stored
    with noting_end(store, run, Limits(budget=None, seconds=3600.0)):
        (standing,) = standings(store.database)

    assert datetime.fromisoformat(standing.run.ends) > datetime.now(UTC)
    assert standing.left_s is not None
    assert 0 < standing.left_s <= 3600


def test_a_search_that_was_stopped_is_not_finished_also_where_it_was_once(stored) -> None:
    store, run = stored
    with noting_end(store, run, Limits(budget=None, seconds=1e-9)):
        pass
    with pytest.raises(KeyboardInterrupt), noting_end(store, run, Limits(budget=None, seconds=60.0)):
        raise KeyboardInterrupt

    (standing,) = standings(store.database)
    assert (standing.run.ended, state(standing)) == ("", "stopped")


def test_a_search_with_nothing_left_to_propose_is_finished(stored) -> None:
    store, run = stored
    with noting_end(store, run, Limits(budget=None, seconds=60.0)):
        pass

    (standing,) = standings(store.database)
    assert (standing.run.ended, state(standing)) == ("space", "finished")
