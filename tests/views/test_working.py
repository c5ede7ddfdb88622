"""Long work says what it does; short work and a quiet command are silent."""

import threading

import pytest

from evoflash import notices
from evoflash.notices import _PATIENCE_S, working


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(notices, "say", heard.append)
    return heard


def test_work_that_takes_long_is_said_once(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = threading.Event()
    monkeypatch.setattr(notices, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(notices, "say", lambda words: (said.append(words), spoken.set()))
    with working("counting"):
        assert spoken.wait(60)
    assert said == ["counting ..."]


def test_work_that_ends_soon_is_not_announced(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_PATIENCE_S", 600.0)
    with working("counting"):
        pass
    assert said == []
    assert not any(
        isinstance(each, threading.Timer) and not each.finished.is_set() for each in threading.enumerate()
    )


def test_a_person_waits_no_longer_than_two_seconds_for_a_word() -> None:
    assert _PATIENCE_S < 2
