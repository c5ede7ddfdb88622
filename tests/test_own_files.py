"""Files of the user's own: found in extension folders, and their mistakes in a line each."""

import importlib.metadata
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from places import environment
from tables import data, table_of_cases

from evoflash import extensions as folders
from evoflash import operation as registry
from evoflash.app.doctor import examine
from evoflash.errors import EvoflashError, TemplateError
from evoflash.evaluation import Proposal
from evoflash.gpu.timing.noise_floor import environment as environment_of_runs
from evoflash.kernels.family import known_families, load_family, read_family
from evoflash.kernels.renderer import render
from evoflash.paths import GPUS, MUTATIONS
from evoflash.problem import check_fits, parse_problem
from evoflash.replay.comparison import parse_strategies
from evoflash.space import Check, Genome, Param, SearchSpace
from evoflash.specs import known_gpus, load_gpu, read_gpu
from evoflash.strategies import known_strategies, make_strategy
from evoflash.strategies.operators import operators

SPACE = SearchSpace(
    "made",
    (Param("x", (1, 2, 3, 4)), Param("y", ("a", "b"))),
    checks=(Check("even", lambda v: v["x"] != 3),),
)
PLANTED = Path(__file__).parent / "templates" / "planted.cu.j2"


@pytest.fixture
def own(tmp_path, monkeypatch) -> Path:
    """An extension folder with its four subfolders, empty."""
    for kind in folders.KINDS:
        (tmp_path / kind).mkdir()
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(tmp_path))
    load_gpu.cache_clear()
    load_family.cache_clear()
    return tmp_path


def error_of(call, *arguments, **options) -> str:
    with pytest.raises(EvoflashError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def test_a_gpu_of_ones_own_is_listed_and_loaded(own) -> None:
    (own / "gpus" / "mine.toml").write_text((GPUS / "l4.toml").read_text().replace("NVIDIA L4", "Mine"))

    assert "mine" in known_gpus()
    assert load_gpu("mine").device_names == ("Mine",)


def test_a_family_of_ones_own_is_listed_and_loaded(own) -> None:
    shutil.copy(PLANTED, own / "templates")

    assert "planted" in known_families()
    assert load_family("planted").path == own / "templates" / "planted.cu.j2"


def test_an_operator_of_ones_own_is_found(own) -> None:
    (own / "mutations" / "mine.py").write_text(
        "PARENTS = 1\ndef mutate(parents, space, rng): return parents[0]\n"
    )

    assert "mine" in {operator.name for operator in operators()}


GOOD_STRATEGY = data(__file__, "GOOD_STRATEGY")


def test_a_strategy_of_ones_own_proposes(own) -> None:
    (own / "strategies" / "mine.py").write_text(GOOD_STRATEGY)

    assert "mine" in known_strategies()
    assert SPACE.is_valid(make_strategy("mine", SPACE, seed=0).ask().genome)


@table_of_cases()
def test_a_name_that_is_there_already_is_an_error_that_names_both_files(own, kind, name) -> None:
    (own / kind / name).write_text("")
    every = {
        "gpus": known_gpus,
        "templates": known_families,
        "mutations": operators,
        "strategies": known_strategies,
    }
    said = error_of(every[kind])

    assert "is there twice" in said
    assert str(own / kind / name) in said
    assert said.count(f"/{name}") == 2


def test_a_file_whose_name_is_none_is_an_error_that_says_how_to_name_it(own) -> None:
    (own / "gpus" / "My-GPU.toml").write_text("")

    assert "rename it: a lower-case letter" in error_of(known_gpus)


def test_an_extension_folder_that_is_not_there_is_an_error(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("EVOFLASH_EXTENSIONS", str(tmp_path / "gone"))

    assert "EVOFLASH_EXTENSIONS names the extension folder" in error_of(known_gpus)


def test_a_template_folder_that_is_not_there_is_an_error(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("EVOFLASH_TEMPLATES", str(tmp_path / "gone"))

    assert "EVOFLASH_TEMPLATES names the folder" in error_of(known_families)


def test_an_installed_package_adds_its_folder_by_an_entry_point(tmp_path, monkeypatch) -> None:
    package = tmp_path / "site" / "my_kernels"
    (package / "gpus").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('finding the folder imports nothing')")
    shutil.copy(GPUS / "l4.toml", package / "gpus" / "packaged.toml")
    info = tmp_path / "site" / "my_kernels-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my_kernels\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[evoflash.extensions]\nmine = my_kernels\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    folders._of_packages.cache_clear()
    try:
        assert "packaged" in known_gpus()
    finally:
        folders._of_packages.cache_clear()


def test_an_entry_point_that_names_no_package_is_an_error(monkeypatch) -> None:
    point = importlib.metadata.EntryPoint("mine", "no_such_package", folders.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: (point,))
    folders._of_packages.cache_clear()
    try:
        assert "mine = no_such_package" in error_of(known_gpus)
    finally:
        folders._of_packages.cache_clear()


# GPUs.


@table_of_cases()
def test_a_gpu_file_that_is_wrong_is_named_with_what_to_write(tmp_path, old, new, says) -> None:
    text = (GPUS / "l4.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))

    said = error_of(read_gpu, path)

    assert str(path) in said
    assert says in said


def test_a_gpu_file_may_leave_its_memory_out_and_then_refuses_no_size(tmp_path) -> None:
    text = (GPUS / "l4.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("memory_gb")))

    assert read_gpu(path).memory_gb == 0
    check_fits(parse_problem("mission,s=30000000"), read_gpu(path))


def test_a_gpu_file_that_is_no_text_is_named(tmp_path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe\x00")

    assert "mine.toml is not TOML" in error_of(read_gpu, tmp_path / "mine.toml")


# Operators.


@table_of_cases()
def test_an_operators_file_that_does_not_load_is_named_with_its_line(own, text, says) -> None:
    (own / "mutations" / "mine.py").write_text(text)

    said = error_of(operators)

    assert str(own / "mutations" / "mine.py") in said
    assert says in said


@table_of_cases()
def test_an_operator_that_fails_is_left_out_with_one_line_and_not_called_again(
    own, body, says, caplog
) -> None:
    path = own / "mutations" / "mine.py"
    path.write_text(f"PARENTS = 1\ndef mutate(parents, space, rng):\n{body}\n")
    mine = next(operator for operator in operators() if operator.name == "mine")
    parent, rng = SPACE.genome({}), np.random.default_rng(0)

    with caplog.at_level(logging.WARNING, logger="evoflash"):
        children = [mine.child([parent], SPACE, rng) for _ in range(3)]

    assert children == [None, None, None]
    assert len(caplog.messages) == 1
    assert str(path) in caplog.messages[0]
    assert says in caplog.messages[0]
    assert "the operator mine is left out" in caplog.messages[0]


def test_a_search_goes_on_without_an_operator_that_fails(own, caplog) -> None:
    (own / "mutations" / "mine.py").write_text(
        "PARENTS, PRIOR, GENERAL = 1, 1e9, True\ndef mutate(parents, space, rng): raise ValueError('mine')\n"
    )
    space = SearchSpace("made", tuple(Param(f"g{i}", (1, 2, 3, 4)) for i in range(6)))
    strategy = make_strategy("evolution", space, seed=0, seeds=(space.genome({}),))

    asked = [strategy.ask() for _ in range(12)]

    assert all(isinstance(each, Proposal) for each in asked)
    assert [message for message in caplog.messages if "mine" in message] == caplog.messages
    assert len(caplog.messages) == 1


# Strategies.


@table_of_cases()
def test_a_strategy_that_cannot_be_made_is_named(own, text, says) -> None:
    (own / "strategies" / "mine.py").write_text(text)

    said = error_of(make_strategy, "mine", SPACE, seed=0)

    assert str(own / "strategies" / "mine.py") in said
    assert says in said


STRATEGY = data(__file__, "STRATEGY")


@table_of_cases()
def test_a_strategy_that_proposes_what_none_may_is_named(own, ask, says) -> None:
    (own / "strategies" / "mine.py").write_text(STRATEGY.format(ask=ask))
    strategy = make_strategy("mine", SPACE, seed=0)

    said = error_of(strategy.ask)

    assert str(own / "strategies" / "mine.py") in said
    assert says in said


def test_a_strategy_may_not_ask_for_a_genome_twice(own) -> None:
    (own / "strategies" / "mine.py").write_text(STRATEGY.format(ask="return Proposal(self.space.genome({}))"))
    strategy = make_strategy("mine", SPACE, seed=0)
    strategy.ask()

    assert "each genome may be asked for once" in error_of(strategy.ask)


# Templates.


@table_of_cases()
def test_a_template_with_a_broken_header_is_named(tmp_path, old, new, says) -> None:
    text = PLANTED.read_text()
    assert old in text
    path = tmp_path / "mine.cu.j2"
    path.write_text(text.replace(old, new, 1))

    said = error_of(read_family, path)

    assert "mine.cu.j2" in said
    assert says in said


@table_of_cases()
def test_a_template_that_does_not_render_is_named_with_its_line(own, new, says) -> None:
    path = own / "templates" / "mine.cu.j2"
    lines = PLANTED.read_text().splitlines()
    at = lines.index("{{ banner }}") + 1
    path.write_text("\n".join([*lines[:at], new, *lines[at:]]))
    family, gpu = load_family("mine"), load_gpu("l4")
    (key,) = parse_problem("mission").compile_keys(gpu.arch)
    genome: Genome = family.space((key,), gpu).genome({})

    with pytest.raises(TemplateError) as caught:
        render(genome, key, gpu)

    assert f"mine.cu.j2:{at + 1}: " in str(caught.value)
    assert says in str(caught.value)


def test_a_template_that_is_no_text_is_named(tmp_path) -> None:
    (tmp_path / "mine.cu.j2").write_bytes(b"\xff\xfe")

    assert "mine.cu.j2 is no text in UTF-8" in error_of(read_family, tmp_path / "mine.cu.j2")


def test_operations_that_make_no_sense_are_an_error(monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_OPERATIONS", "nonsense")

    assert "EVOFLASH_OPERATIONS: 'nonsense': write name=module" in error_of(registry.load, "mine")


def test_doctor_names_an_own_file_that_does_not_load(own) -> None:
    (own / "strategies" / "mine.py").write_text("def strategy(:\n")

    found = {finding.subject: finding for finding in examine()}

    assert found["extensions"].state == "missing"
    assert "mine.py:1: SyntaxError" in found["extensions"].detail


def test_the_help_of_a_search_lists_own_strategies(own) -> None:
    (own / "strategies" / "mine.py").write_text(GOOD_STRATEGY)
    done = subprocess.run(
        [sys.executable, "-m", "evoflash", "search", "--help"],
        capture_output=True,
        text=True,
        env=environment(COLUMNS="200"),
        check=False,
    )

    assert "exhaustive, uniform or mine" in " ".join(done.stdout.split())


def test_a_strategy_of_ones_own_is_replayed(own) -> None:
    (own / "strategies" / "mine.py").write_text(GOOD_STRATEGY)

    assert "mine" in parse_strategies("all")
    assert parse_strategies("mine,uniform") == ("mine", "uniform")


def test_what_runs_and_records_were_made_with_names_each_file_and_its_digest(own, tmp_path) -> None:
    plain = folders.made_with(MUTATIONS)
    (own / "mutations" / "shake.py").write_text("PARENTS = 1\n")
    with_one = folders.made_with(MUTATIONS)
    (own / "mutations" / "shake.py").write_text("PARENTS = 2\n")
    edited = folders.made_with(MUTATIONS)

    assert "extensions" not in plain
    assert with_one["extensions"].startswith("mutations/shake.py ")
    assert with_one["extensions"] != edited["extensions"]
    assert plain["operators"] == with_one["operators"] == edited["operators"]
    assert folders.made_with(tmp_path)["operators"] != plain["operators"]
    assert environment_of_runs()["extensions"] == edited["extensions"]
