"""Long work says what it does; short work and a quiet command are silent."""

import threading

import pytest

from evoflash.commands import terminal


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    heard: list[str] = []
    monkeypatch.setattr(terminal, "say", heard.append)
    return heard


def test_work_that_takes_long_is_said_once(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spoken = threading.Event()
    monkeypatch.setattr(terminal, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(terminal, "say", lambda words: (said.append(words), spoken.set()))
    with terminal.working("counting"):
        assert spoken.wait(60)
    assert said == ["counting ..."]


def test_work_that_ends_soon_is_not_announced(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE_S", 600.0)
    with terminal.working("counting"):
        pass
    assert said == []
    assert not any(
        isinstance(each, threading.Timer) and not each.finished.is_set() for each in threading.enumerate()
    )


def test_a_person_waits_no_longer_than_two_seconds_for_a_word() -> None:
    assert terminal._PATIENCE_S < 2
