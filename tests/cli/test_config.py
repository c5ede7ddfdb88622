"""`evoflash config`: every setting with its value and where it comes from; passwords are left out."""

import json

import pytest

from evoflash.cli import program as cli
from evoflash.settings import SETTINGS


def config(capsys, *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        raise SystemExit(cli.run_command(["config", *arguments]))
    assert caught.value.code in (0, None)
    return capsys.readouterr().out


def test_every_setting_is_listed_with_its_source(capsys, monkeypatch, tmp_path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('gpu = "l4"\n[leaderboard]\ntop = 5\n')
    monkeypatch.setenv("EVOFLASH_CONFIG", str(path))
    monkeypatch.setenv("EVOFLASH_BUDGET", "9")

    rows = {row["name"]: row for row in json.loads(config(capsys, "--json"))["settings"]}

    assert {setting.key or setting.variable for setting in SETTINGS} <= rows.keys()
    assert (rows["gpu"]["value"], rows["gpu"]["source"]) == ("l4", str(path))
    assert (rows["budget"]["value"], rows["budget"]["source"]) == (9, "EVOFLASH_BUDGET")
    assert (rows["quiet"]["value"], rows["quiet"]["source"]) == (None, "built in")
    assert (rows["leaderboard.top"]["value"], rows["leaderboard.top"]["source"]) == (5, str(path))


def test_the_table_for_people_has_the_same_and_the_files_looked_for(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("EVOFLASH_CONFIG", str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text('gpu = "l4"\n')

    text = config(capsys)

    assert [line.split() for line in text.splitlines() if line.startswith("gpu ")] == [
        ["gpu", "l4", str(tmp_path / "mine.toml")]
    ]
    assert f"config files: {tmp_path / 'mine.toml'} (read)" in text


def test_an_extension_folder_is_listed_with_what_it_holds(capsys, monkeypatch, tmp_path) -> None:
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "mine.toml").write_text("")
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(tmp_path))

    assert f"{tmp_path}: 0 templates, 0 mutations, 1 gpus, 0 strategies" in config(capsys)


def test_a_password_in_the_databases_url_is_not_shown(capsys, monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_DB", "postgresql://me:secret@host/kernels")

    assert "secret" not in config(capsys) + config(capsys, "--json")
