"""Settings: which value holds, where it comes from, and what is wrong with one, by file or variable."""

import re
from pathlib import Path

import pytest
from tables import table_of_cases

from evoflash import paths
from evoflash.errors import UsageError
from evoflash.kernels.standalone import export_values
from evoflash.settings import INTERNAL, SETTINGS, by_key, config_files, is_on, lookup, value

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The working folder; the config home is empty, and no variable is set."""
    monkeypatch.delenv("EVOFLASH_CONFIG")
    monkeypatch.delenv("EVOFLASH_DB")
    monkeypatch.delenv("EVOFLASH_CACHE_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "evoflash").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_any_setting_the_built_in_value_holds(folder) -> None:
    assert lookup("gpu").value is None
    assert lookup("gpu").source == "built in"


def test_the_environment_comes_before_the_folder_and_that_before_the_home(folder, monkeypatch) -> None:
    home = folder / "home" / "evoflash" / "config.toml"
    home.write_text('gpu = "a100"\nbudget = 7\nstrategy = "tpe"\n')
    (folder / "evoflash.toml").write_text('gpu = "l4"\nbudget = 8\n')
    monkeypatch.setenv("EVOFLASH_BUDGET", "9")

    assert (lookup("budget").value, lookup("budget").source) == (9, "EVOFLASH_BUDGET")
    assert (lookup("gpu").value, lookup("gpu").source) == ("l4", str(folder / "evoflash.toml"))
    assert (lookup("strategy").value, lookup("strategy").source) == ("tpe", str(home))


def test_an_empty_variable_counts_as_unset(folder, monkeypatch) -> None:
    (folder / "evoflash.toml").write_text('gpu = "l4"\n')
    monkeypatch.setenv("EVOFLASH_GPU", "")

    assert value("gpu") == "l4"


def test_a_named_config_file_is_read_in_place_of_both(folder, monkeypatch) -> None:
    (folder / "evoflash.toml").write_text('gpu = "l4"\nstrategy = "tpe"\n')
    (folder / "other.toml").write_text('gpu = "a100"\n')
    monkeypatch.setenv("EVOFLASH_CONFIG", str(folder / "other.toml"))

    assert (value("gpu"), value("strategy")) == ("a100", None)


def test_a_named_config_file_that_is_not_there_is_an_error(folder, monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_CONFIG", str(folder / "gone.toml"))

    with pytest.raises(UsageError, match=r"EVOFLASH_CONFIG names .*gone\.toml, which is not there"):
        config_files()


def test_the_database_and_the_cache_obey_the_config_file(folder) -> None:
    (folder / "evoflash.toml").write_text('db = "mine.db"\ncache_dir = "/var/tmp/mine"\n')

    assert paths.default_database() == str(folder / "mine.db")
    assert paths.cache_dir() == Path("/var/tmp/mine")


def test_a_database_url_in_a_config_file_is_no_path(folder) -> None:
    (folder / "evoflash.toml").write_text('db = "postgresql://host/kernels"\n')

    assert paths.default_database() == "postgresql://host/kernels"


def test_a_relative_extension_folder_is_meant_from_the_config_files_folder(folder, monkeypatch) -> None:
    (folder / "home" / "evoflash" / "config.toml").write_text('extensions = ["mine", "/abs"]\n')

    assert value("extensions") == (str(folder / "home" / "evoflash" / "mine"), "/abs")


@table_of_cases()
def test_a_config_file_that_is_wrong_is_named_with_what_to_write(folder, text, says) -> None:
    (folder / "evoflash.toml").write_text(text)

    with pytest.raises(UsageError) as caught:
        config_files()

    assert str(folder / "evoflash.toml") in str(caught.value)
    assert says in str(caught.value)


def test_a_config_file_that_is_a_folder_is_named(folder) -> None:
    (folder / "evoflash.toml").mkdir()

    with pytest.raises(UsageError, match=r"evoflash\.toml cannot be read"):
        config_files()


@pytest.mark.parametrize(("name", "text"), [("budget", "many"), ("quiet", "perhaps")])
def test_a_variable_that_makes_no_sense_is_named(folder, monkeypatch, name, text) -> None:
    monkeypatch.setenv(by_key()[name].variable, text)

    with pytest.raises(UsageError, match=f"{by_key()[name].variable}={text}: give"):
        lookup(name)


@pytest.mark.parametrize(("text", "on"), [("1", True), ("yes", True), ("0", False), ("off", False)])
def test_a_switch_is_read_in_words(folder, monkeypatch, text, on) -> None:
    monkeypatch.setenv("EVOFLASH_QUIET", text)

    assert is_on("quiet") is on


def names_in_c() -> set[str]:
    """Constants of exported files, which look alike."""
    text = export_values("flash_simt", [], problem="mission", gpu="l4")
    return set(re.findall(r"\bEVOFLASH_[A-Z_]+[A-Z]\b", text))


def test_every_variable_in_the_source_is_in_the_table() -> None:
    files = [
        path
        for top in ("evoflash", "mutations", "scripts")
        for path in (ROOT / top).rglob("*")
        if path.is_file() and (path.suffix in (".py", ".sh", ".txt") or not path.suffix)
    ]
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in files)
    used = {name for text in texts for name in re.findall(r"\bEVOFLASH_[A-Z_]+[A-Z]\b", text)}
    used -= names_in_c() | {"EVOFLASH_LINEAR", "EVOFLASH_LINEAR_VERSION", "EVOFLASH_PAGED"}
    known = {setting.variable for setting in SETTINGS} | INTERNAL.keys()

    assert len(used) > 8
    assert used - known == set()
    assert known - used == set()
