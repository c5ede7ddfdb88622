"""Files of other people: what evoflash did not write, or what was edited since, is kept without --force."""

import sqlite3
from pathlib import Path

import pytest
from in_process import invoke

from evoflash import written_files
from evoflash.errors import StoreError, UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.written_files import check_replaceable, keep_written, replacing, write_bytes, write_text


def test_what_was_written_is_replaced_until_it_is_edited(tmp_path):
    path = tmp_path / "kernel.cu"
    write_text(path, "one")
    write_text(path, "two")
    path.write_text("two, and a day's work")

    with pytest.raises(UsageError, match="was edited since: choose another path, or replace it with --force"):
        write_text(path, "three")
    assert path.read_text() == "two, and a day's work"
    with replacing():
        write_text(path, "three")
    assert path.read_text() == "three"
    assert [each.name for each in tmp_path.iterdir()] == ["kernel.cu"]


def test_a_later_process_knows_what_an_earlier_one_wrote(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_text(path, "one")
    monkeypatch.setattr(written_files, "_written_here", set())

    write_text(path.rename(tmp_path / "moved.json"), "two")
    assert (tmp_path / "moved.json").read_text() == "two"


def test_where_no_state_can_be_kept_a_process_knows_its_own_files(tmp_path, monkeypatch):
    monkeypatch.setattr(written_files, "state_dir", lambda: Path("/proc/nowhere"))
    path = tmp_path / "a.json"
    write_text(path, "one")
    write_text(path, "two")
    monkeypatch.setattr(written_files, "_written_here", set())

    with pytest.raises(UsageError, match="was not written by evoflash here"):
        write_text(path, "three")
    write_text(path, "two")  # what stands there anyway


def test_empty_files_and_pipes_are_written_and_databases_never(tmp_path):
    (tmp_path / "empty").touch()
    write_bytes(tmp_path / "empty", b"x")
    write_bytes(Path("/dev/null"), b"x")
    database = tmp_path / "a.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE mine (x)")

    with pytest.raises(UsageError, match="is a database, and would be lost"), replacing():
        write_bytes(database, b"x")


def test_the_oldest_digests_are_forgotten_and_the_list_stays_small(tmp_path, monkeypatch):
    monkeypatch.setattr(written_files, "state_dir", lambda: tmp_path / "state")
    monkeypatch.setattr(written_files, "_MOST_BYTES", 200)
    for number in range(40):
        write_text(tmp_path / "a", str(number))

    assert (tmp_path / "state" / "written-files").stat().st_size < 300
    check_replaceable(tmp_path / "a")


def test_a_file_that_a_library_wrote_is_known_as_it_is(tmp_path):
    path = tmp_path / "study.log"
    path.write_text("trials")
    keep_written(path)

    check_replaceable(path)


# ---- through the commands

GPU, PROBLEM = load_gpu("l4"), parse_problem("mission")


@pytest.fixture(scope="module")
def db(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("runs") / "a.db")
    family = load_family("flash_simt")
    space = family.space(PROBLEM.compile_keys(GPU.arch), GPU)
    with open_store(path) as store:
        key = RunKey(str(PROBLEM), "l4", Basis.ESTIMATED, "evolution", 0)
        run = store.begin(key, gpu_hash="abc", budget=9, argv=[], environment={})
        for us, genome in enumerate(family.seeds_for(PROBLEM, space, GPU)[:2], 20):
            timing = Timing(str(PROBLEM), "model", us, None, None, 0)
            known = (str(PROBLEM), "l4", Basis.ESTIMATED, Status.CORRECT, Rung.DONE)
            evaluation = Evaluation(genome, *known, timings=(timing,), score_us=us, model_version="4")
            store.add(run, evaluation, Proposal(genome))
    return path


@pytest.mark.parametrize(
    "words",
    [
        "export --family flash_simt --problem mission --gpu l4 -o {}.cu --kind cu",
        "best --gpu l4 --problem mission --no-archive --export {}.cu",
        "report -o {}.html",
        "report --json {}.json",
        "leaderboard --html {}.html",
        "record {}.json.gz --problem mission --gpu l4 --family flash_simt --estimated",
        "dashboard --no-serve -o {}.log",
    ],
)
@pytest.mark.sample(4)
def test_each_command_keeps_an_edited_file_and_replaces_it_where_asked(db, tmp_path, words):
    arguments = [*words.format(tmp_path / "file").split(), "--db", db]

    def run(*more: str) -> int:
        done = invoke(*arguments, *more)
        return 2 if isinstance(done.exception, UsageError) else done.exit_code

    assert (run(), run()) == (0, 0)
    (path,) = tmp_path.iterdir()
    edited = path.read_bytes() + b"\n// by hand"
    path.write_bytes(edited)
    assert (run(), path.read_bytes() == edited) == (2, True)
    assert (run("--force"), path.read_bytes() == edited) == (0, False)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("ladder --gpu l4 --problem mission --plot {}", "steps.svg"),
        ("portfolio --problems docs/examples/serving-mix.txt --gpu l4 --export {}", "package/portfolio.json"),
        ("benchmark-search --strategies uniform --seeds 1 --budget 1 -o {}", "compared.html"),
        ("benchmark-search --strategies uniform --seeds 1 --budget 1 -o {}", "compared.json"),
    ],
)
def test_commands_that_work_for_minutes_refuse_other_peoples_files_before_they_begin(tmp_path, words, name):
    theirs = tmp_path / name
    theirs.parent.mkdir(exist_ok=True)
    theirs.write_text("a day's work")
    given = theirs.parent if theirs.parent != tmp_path else theirs

    done = invoke(*words.format(given).split())

    assert isinstance(done.exception, UsageError)
    assert f"{theirs} was not written by evoflash here" in str(done.exception)
    assert (theirs.read_text(), list(theirs.parent.iterdir())) == ("a day's work", [theirs])


@pytest.mark.parametrize("tables", [("studies",), ("studies", "runs")])
def test_a_database_of_another_program_is_refused_and_not_a_byte_is_written(tmp_path, tables):
    path = tmp_path / "study.db"
    with sqlite3.connect(path) as connection:
        for name in tables:
            connection.execute(f"CREATE TABLE {name} (id INTEGER)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreError, match="is another program's database, with its tables"):
        open_store(str(path))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["study.db"]
