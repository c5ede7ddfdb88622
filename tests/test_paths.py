"""Where things are: shipped folders exist, the user's obey their variables, nothing is created."""

from pathlib import Path

import pytest

from evoflash import paths


@pytest.mark.parametrize("folder", ["TEMPLATES", "MUTATIONS", "DB", "GPUS", "DEVICE", "EMU"])
def test_each_shipped_folder_is_there(folder: str) -> None:
    assert getattr(paths, folder).is_dir()


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path / "mine"))

    assert paths.cache_dir() == tmp_path / "mine"


def test_the_database_can_be_a_path_or_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOFLASH_DB", "postgresql://host/kernels")

    assert paths.default_database() == "postgresql://host/kernels"


def test_without_a_choice_everything_is_in_the_users_xdg_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("EVOFLASH_CACHE_DIR")
    monkeypatch.delenv("EVOFLASH_DB")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    assert paths.cache_dir() == tmp_path / "cache" / "evoflash"
    assert paths.default_database() == str(tmp_path / "data" / "evoflash" / "evoflash.db")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", "")
    monkeypatch.setenv("EVOFLASH_DB", "")

    assert paths.cache_dir().name == "evoflash"
    assert paths.default_database().endswith("evoflash.db")


def test_asking_where_things_are_creates_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVOFLASH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("EVOFLASH_DB", str(tmp_path / "db" / "evoflash.db"))

    paths.cache_dir()
    paths.default_database()

    assert list(tmp_path.iterdir()) == []
