"""Defaults of options from config files and the environment, below the command line, checked."""

from pathlib import Path

import pytest
import typer
from tables import table_of_cases
from typer.main import get_command

from evoflash.cli import program as cli
from evoflash.cli.command_group import defaults_of, program
from evoflash.errors import UsageError


@pytest.fixture
def config(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "evoflash.toml"
    monkeypatch.setenv("EVOFLASH_CONFIG", str(path))
    path.write_text("")
    return path


def said(capsys, *arguments: str) -> str:
    """What the program says as it ends, after checking that it ends in one line of usage error."""
    with pytest.raises(SystemExit) as caught:
        raise SystemExit(cli.run_command(arguments))
    err = capsys.readouterr().err
    assert caught.value.code == 2, err
    assert err.count("\n") == 1, err
    return err


def test_a_setting_is_the_default_of_the_commands_that_have_the_option(config, capsys) -> None:
    config.write_text('gpu = "l5"\n')

    assert "no GPU is called 'l5'" in said(capsys, "search")


def test_an_option_comes_before_the_environment_and_the_file(config, capsys, monkeypatch) -> None:
    config.write_text('gpu = "l5"\n')
    monkeypatch.setenv("EVOFLASH_GPU", "l6")

    assert "no GPU is called 'l6'" in said(capsys, "search")
    assert "no GPU is called 'l7'" in said(capsys, "search", "--gpu", "l7")


def test_a_commands_table_comes_before_a_setting_of_the_file(config, capsys) -> None:
    config.write_text('gpu = "l5"\n[search]\ngpu = "l6"\n')

    assert "no GPU is called 'l6'" in said(capsys, "search")


def test_a_strategy_of_a_search_is_none_of_a_replay(config, capsys) -> None:
    config.write_text('strategy = "magic"\n')

    assert "no strategy is called 'magic'" in said(capsys, "search", "--gpu", "l4")
    assert "magic" not in said(capsys, "replay", "no_such_file.json.gz")


@table_of_cases()
def test_a_table_that_is_wrong_is_named_with_its_file(config, capsys, text, says) -> None:
    config.write_text(text)

    err = said(capsys, "gpus")

    assert str(config) in err
    assert says in err


def test_the_programs_help_is_shown_whatever_the_config_file_holds(config, capsys) -> None:
    config.write_text("broken = \n")

    with pytest.raises(SystemExit) as caught:
        cli.run_command(["--help"])

    assert caught.value.code == 0


@pytest.fixture
def grouped():
    """The commands of a program that has a group of commands: `runs list --top`."""
    group = typer.Typer(name="runs")

    @group.command("list")
    def listed(top: int = 3, gpu: str = "") -> None:
        """List them."""

    @group.command("delete")
    def deleted(top: int = 3) -> None:
        """Delete them."""

    app = program(cli.commands())
    app.add_typer(group)
    return get_command(app)


def test_a_command_of_a_group_has_a_table_within_the_groups(config, grouped) -> None:
    config.write_text('gpu = "l4"\n[runs.list]\ntop = 5\n')

    found = defaults_of(grouped.commands, typer.Context(grouped))

    assert found["runs"]["list"] == {"gpu": "l4", "top": "5"}
    assert found["runs"]["delete"] == {}


@table_of_cases()
def test_a_table_of_a_group_that_is_wrong_is_named(config, grouped, text, says) -> None:
    config.write_text(text)

    with pytest.raises(UsageError) as caught:
        defaults_of(grouped.commands, typer.Context(grouped))

    assert says in str(caught.value)
