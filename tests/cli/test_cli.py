"""The command line as a user meets it: its own process, one line and a documented exit code for errors."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import python_processes
import typer
from command_cases import EXIT_DEVICE, EXIT_USAGE, fresh, one_line
from forked import evoflash
from places import ROOT, environment
from tables import data, table_of_cases
from waiting import LIMIT_S, until

from evoflash.cli import program as cli
from evoflash.cli.command_group import program as program_of_terminal

SEARCH_ONE = ("search", "--gpu", "l4", "--budget", "1", "--db")
EXPORT = ("export", "--family", "flash_mma", "--gpu", "l4", "--set")


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> Path:
    """A database in which the README's first command has run with a small budget."""
    path = tmp_path_factory.mktemp("searched") / "evoflash.db"
    done = evoflash("search", "--gpu", "l4", "--budget", "3", "--db", str(path), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["best"]["basis"] == "estimated"
    return path


@pytest.mark.slow
@pytest.mark.full
def test_the_search_says_that_its_times_are_estimates(tmp_path):
    done = evoflash("search", "--gpu", "l4", "--budget", "2", "--db", str(tmp_path / "a.db"))

    assert done.returncode == 0
    assert "ESTIMATED" in done.stderr
    assert "ESTIMATED by model" in done.stdout
    assert re.search(r"~\d+\.\d+ us", done.stdout)


@pytest.mark.slow
@pytest.mark.full
def test_the_same_command_again_spends_nothing(searched):
    done = evoflash("search", "--gpu", "l4", "--budget", "3", "--db", str(searched))

    assert done.returncode == 0
    assert "spent its budget (3 of 3)" in done.stderr


@pytest.mark.slow
@pytest.mark.full
def test_a_higher_budget_continues_the_run(searched, tmp_path):
    copy = tmp_path / "copy.db"
    copy.write_bytes(searched.read_bytes())

    done = evoflash("search", "--gpu", "l4", "--budget", "4", "--db", str(copy))

    assert done.returncode == 0
    assert "continuing run 1 at 3 of 4" in done.stderr


@pytest.mark.full
def test_best_exports_a_file_whose_command_prints_it_again(searched, tmp_path):
    target = tmp_path / "kernel.cu"

    done = evoflash("best", "--export", str(target), "--db", str(searched))
    text = target.read_text()
    (line,) = re.findall(r"^// evoflash (export .*)$", text, flags=re.MULTILINE)
    again = evoflash(*line.split())

    assert done.returncode == 0
    one, other = again.stdout.splitlines(), text.splitlines()
    assert len(one) == len(other)
    differing = [after.split()[1] for before, after in zip(one, other, strict=True) if before != after]
    assert differing == ["Checked:", "Time:"]  # as the file says


@pytest.mark.slow
def test_best_show_prints_the_same_text(searched):
    shown = evoflash("best", "--show", "--db", str(searched))

    assert shown.stdout.startswith("// flash_mma: ")
    assert shown.stdout.rstrip().endswith("#endif  // __CUDACC__")


@pytest.mark.slow
def test_the_leaderboard_ranks_and_marks_estimates(searched):
    arguments = ("leaderboard", "--gpu", "l4", "--problem", "mission", "--db", str(searched))
    rows = json.loads(evoflash(*arguments, "--json").stdout)["leaderboard"]
    table = evoflash(*arguments).stdout
    lines = list(csv.DictReader(io.StringIO(evoflash(*arguments, "--csv").stdout)))

    scores = [row["score_us"] for row in rows]
    assert scores == sorted(scores)
    assert {row["basis"] for row in rows} == {"estimated"}
    assert "not measured" in table
    assert "~" in table
    assert [line["genome_id"] for line in lines] == [row["genome_id"] for row in rows]


@pytest.mark.slow
def test_show_prints_one_kernel_and_its_command(searched):
    rows = json.loads(evoflash("leaderboard", "--db", str(searched), "--json").stdout)["leaderboard"]
    wanted = rows[0]["genome_id"]

    shown = evoflash("show", wanted[:8], "--db", str(searched))
    command = evoflash("show", wanted[:8], "--command", "--db", str(searched))

    assert wanted in shown.stdout
    assert command.stdout.startswith("evoflash export --family flash_mma ")


def test_show_failures_counts_them(searched):
    assert "failures" in evoflash("show", "--failures", "--db", str(searched)).stdout


@pytest.mark.slow
def test_every_reading_command_prints_json(searched):
    for arguments in (
        ("families",),
        ("gpus",),
        ("best", "--db", str(searched)),
        ("show", "--failures", "--db", str(searched)),
    ):
        done = evoflash(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        json.loads(done.stdout)


def test_doctor_examines_this_machine():
    done = evoflash("doctor", "--json")

    findings = {row["subject"]: row["state"] for row in json.loads(done.stdout)}
    assert findings["NVRTC"] == "ok"
    assert findings["host compiler"] == "ok"
    assert done.returncode == 0


@pytest.mark.slow
def test_a_dry_run_compiles_and_stores_nothing(tmp_path):
    done = evoflash(
        "search", "--gpu", "h200", "--budget", "2", "--dry-run", "--db", str(tmp_path / "none.db")
    )

    assert len(done.stdout.splitlines()) == 2
    assert "registers" in done.stdout
    assert not (tmp_path / "none.db").exists()


@table_of_cases()
@pytest.mark.skipif(
    os.path.exists("/dev/nvidia0"), reason="the messages are those of a machine without a GPU"
)
def test_a_mistake_is_one_line_with_what_to_do(arguments, code, says, tmp_path):
    words = [*EXPORT, *arguments[1:]] if arguments[0] == "EXPORT" else arguments
    done = evoflash(*words, EVOFLASH_DB=str(tmp_path / "none.db"))

    assert done.returncode == code, done.stderr
    assert says in one_line(done)
    assert done.stdout == ""


@pytest.mark.parametrize("group", ["runs", "db"])
def test_every_summary_in_a_groups_help_stands_whole_at_80_columns(group):
    summaries = evoflash(group, "--help", COLUMNS="80").stdout.partition("Commands:")[2]

    assert summaries.strip()
    assert "..." not in summaries


def test_an_unknown_option_is_a_usage_error():
    assert fresh("search", "--gpuu", "l4").returncode == EXIT_USAGE


def test_a_database_that_is_garbage_is_said_in_one_line(tmp_path):
    path = tmp_path / "garbage.db"
    path.write_bytes(b"this is not a database" * 100)

    done = evoflash("leaderboard", "--db", str(path))

    assert done.returncode == 1
    assert "garbage.db" in one_line(done)


def test_a_database_from_the_future_is_said_in_one_line(searched, tmp_path):
    import sqlite3

    path = tmp_path / "future.db"
    path.write_bytes(searched.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("update evoflash_version set version_num = '9999'")
    connection.close()

    done = evoflash(*SEARCH_ONE, str(path))

    assert done.returncode == 1
    assert "newer" in one_line(done)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")

    done = evoflash(*SEARCH_ONE, str(tmp_path / "file" / "x.db"))

    assert done.returncode == 1
    assert "file" in one_line(done)


@pytest.mark.slow
def test_no_host_compiler_is_said_in_one_line(tmp_path):
    bare = {"PATH": str(tmp_path), "EVOFLASH_CACHE_DIR": str(tmp_path / "cache")}
    done = evoflash(*SEARCH_ONE, str(tmp_path / "a.db"), **bare)

    assert done.returncode == EXIT_DEVICE
    assert "g++" in one_line(done)


@pytest.mark.full
def test_no_cuda_wheels_is_said_in_one_line(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('no module named cupy')")

    bare = {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "EVOFLASH_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = fresh(*SEARCH_ONE, str(tmp_path / "a.db"), **bare)

    assert done.returncode == EXIT_DEVICE
    assert 'pip install "cupy-cuda13x' in one_line(done)


def test_a_malformed_header_is_said_in_one_line(tmp_path):
    (tmp_path / "broken.cu.j2").write_text("{#---\nversion = \n---#}\n")

    done = evoflash("families", EVOFLASH_TEMPLATES=str(tmp_path))

    assert done.returncode == 1
    assert "broken.cu.j2" in one_line(done)


def test_a_path_that_cannot_be_written_leaves_nothing_half_done(searched, tmp_path):
    done = evoflash("best", "--export", str(tmp_path / "missing" / "kernel.cu"), "--db", str(searched))

    assert done.returncode == EXIT_USAGE
    assert "kernel.cu" in one_line(done)


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_evaluated(tmp_path):
    path = tmp_path / "stopped.db"
    process = python_processes.evoflash("search", "--gpu", "l4", "--budget", "500", "--db", path)
    until(lambda: process.poll() is not None or _stored(path), what="an evaluation in the database")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=LIMIT_S)

    assert process.returncode == 130, stderr
    assert "the same command continues" in stderr
    assert "Traceback" not in stderr
    assert _stored(path) > 0


def _stored(path: Path) -> int:
    import sqlite3

    if not path.exists():
        return 0
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute("select count(*) from evaluations").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_every_option_that_takes_a_number_says_how_large_it_may_be() -> None:
    program = typer.main.get_command(program_of_terminal(cli.commands()))
    numbers = [
        (f"{name} {option.opts[0]}", option.max)
        for name, command in program.commands.items()
        for option in command.params
        if "int" in str(getattr(getattr(option, "type_descriptor", None), "annotation", ""))
    ]
    assert len(numbers) > 10
    assert [name for name, most in numbers if most is None or most >= 2**63] == []


@pytest.mark.parametrize("option", ["--seed", "--budget"])
def test_a_number_beyond_what_a_database_holds_is_refused_in_words(option: str) -> None:
    done = evoflash("search", "--gpu", "l4", option, "9" * 23)
    assert done.returncode == 2
    assert option in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_loaded_is_not_looked_through_for_garbage_before_the_end():
    """That took a third of the time of a short command."""
    code = data(__file__, "what_is_loaded_is_not_looked_through_for_garbage_before_the_end_text")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )

    assert done.stdout.splitlines()[-1] == "True"
