"""An error that nobody foresaw: one line, exit code 70 and a log; the traceback if asked for."""

import os
import re
from pathlib import Path

import pytest

from evoflash.cli import program as cli


@pytest.fixture
def state(tmp_path, monkeypatch) -> Path:
    """A state folder of its own, and a program whose every command fails as no one foresaw."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def fails(arguments):
        raise KeyError("a genome that is not there")

    monkeypatch.setattr(cli, "_call", fails)
    return tmp_path


def test_an_unforeseen_error_is_one_line_with_the_logs_path(state, capsys) -> None:
    code = cli.run_command(["search", "--gpu", "l4"])

    err = capsys.readouterr().err
    (log,) = (state / "evoflash" / "errors").glob("*.log")
    assert code == 70
    assert err.count("\n") == 1
    assert err.startswith("evoflash: unexpected error in search: KeyError: 'a genome that is not there'")
    assert str(log) in err
    assert "Traceback" not in err


def test_the_log_has_the_command_the_versions_and_the_traceback(state, capsys) -> None:
    cli.run_command(["search", "--gpu", "l4"])

    (log,) = (state / "evoflash" / "errors").glob("*.log")
    text = log.read_text()
    assert "command    evoflash 'search' '--gpu' 'l4'" in text
    assert re.search(r"versions   evoflash \d.*CuPy", text)
    assert "Traceback (most recent call last)" in text
    assert "KeyError: 'a genome that is not there'" in text


def test_a_password_is_neither_said_nor_logged(state, capsys, monkeypatch) -> None:
    def fails(arguments):
        raise RuntimeError("cannot reach postgresql://me:secret@host/kernels")

    monkeypatch.setattr(cli, "_call", fails)
    cli.run_command(["best", "--db", "postgresql://me:secret@host/kernels"])

    (log,) = (state / "evoflash" / "errors").glob("*.log")
    assert "secret" not in log.read_text().replace('"cannot reach postgresql://me:secret@host/kernels"', "")
    assert "secret" not in capsys.readouterr().err


def test_where_no_log_can_be_written_the_line_says_how_to_see_the_traceback(state, capsys) -> None:
    (state / "evoflash").write_text("a file where the folder should be")

    assert cli.run_command(["search"]) == 70

    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "EVOFLASH_DEBUG=1" in err


def test_the_traceback_is_shown_when_asked_for(state, capsys, monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_DEBUG", "1")

    assert cli.run_command(["search"]) == 70

    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_an_operating_systems_error_is_no_unforeseen_one(state, capsys, monkeypatch) -> None:
    def fails(arguments):
        raise OSError(28, os.strerror(28), "/full/evoflash.db")

    monkeypatch.setattr(cli, "_call", fails)

    assert cli.run_command(["search"]) == 1
    assert "No space left on device (/full/evoflash.db)" in capsys.readouterr().err
