"""The Python interface: what `import evoflash` offers, the same as the commands, and as HTML in notebooks."""

import doctest
import html.parser
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evoflash
from evoflash import api
from evoflash.api import calls, judging, stored
from evoflash.api.words import python_words
from evoflash.app import best as answer
from evoflash.cli import program as cli
from evoflash.errors import DeviceError, NoKernelError, StoreError, UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.space import Genome

ERRORS = (
    "DeviceError",
    "EvoflashError",
    "NoKernelError",
    "SandboxError",
    "StoreError",
    "TemplateError",
    "UsageError",
)
_LOADERS = ("load_family", "parse_problem")
FIRST = [name for name in evoflash.__all__ if name[0].islower() and name not in _LOADERS]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return str(tmp_path_factory.mktemp("api") / "evoflash.db")


@pytest.fixture(scope="module")
def heard():
    return []


def searched(database, heard):
    where = {"gpu": "l4", "family": "flash_wmma", "evaluator": "emulated", "db": database}
    return evoflash.search("mission", **where, budget=2, progress=heard.append)


@pytest.fixture(scope="module")
def result(database, heard):
    return searched(database, heard)


def in_new_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def failed(reason: str) -> evoflash.Kernel:
    genome = Genome("flash_simt", 1, (("vec", 1),))
    return api.Kernel(
        Evaluation(genome, "mission", "l4", Basis.ESTIMATED, Status.COMPILE, Rung.COMPILE, reason=reason)
    )


def test_importing_evoflash_loads_nothing_but_itself() -> None:
    loaded = in_new_process(
        "import sys, evoflash\nprint([m for m in ('numpy', 'sqlalchemy', 'typer') if m in sys.modules])"
    )

    assert loaded == "[]"


def test_using_the_interface_loads_no_gpu_code() -> None:
    loaded = in_new_process(
        "import sys, evoflash; evoflash.search\n"
        "print([m for m in ('cupy', 'torch', 'optuna') if m in sys.modules])"
    )

    assert loaded == "[]"


@pytest.mark.parametrize("order", ["import evoflash.search, evoflash.replay", "import evoflash.api", ""])
@pytest.mark.sample(1)
def test_search_and_replay_are_functions_whatever_was_imported_before(order: str) -> None:
    said = in_new_process(
        f"import evoflash\n{order}\nprint(callable(evoflash.search), callable(evoflash.replay))"
    )

    assert said == "True True"


def test_the_module_of_the_loop_can_still_be_imported_from() -> None:
    said = in_new_process(
        "import evoflash; evoflash.search; from evoflash.search import faster; print(faster)"
    )

    assert said.startswith("<function faster")


@pytest.mark.parametrize("name", [name for name in evoflash.__all__ if name[0].islower()])
def test_every_public_function_says_what_it_does(name: str) -> None:
    assert len(getattr(evoflash, name).__doc__.splitlines()[0]) > 30


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = evoflash.nonsense


@pytest.mark.slow
def test_the_examples_in_the_docstrings_are_true(result, database, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("EVOFLASH_DB", database)
    monkeypatch.chdir(tmp_path)

    outcomes = [doctest.testmod(module) for module in (calls, judging, stored)]

    assert sum(outcome.attempted for outcome in outcomes) >= 22
    assert sum(outcome.failed for outcome in outcomes) == 0


@pytest.mark.parametrize("name", FIRST)
def test_every_function_that_works_has_an_example(name: str) -> None:
    assert ">>> " in getattr(evoflash, name).__doc__


def test_a_search_ends_with_a_correct_kernel_and_a_marked_estimate(result) -> None:
    assert result.spent == 2
    assert result.best.is_correct
    assert result.best.time.startswith("~")
    assert "ESTIMATED" in result.best.time


def test_a_search_says_what_the_command_says(result) -> None:
    assert f"kernel    {result.best.id}  flash_wmma" in str(result)


def test_a_problem_that_fails_costs_only_itself(database, tmp_path) -> None:
    mix = tmp_path / "mix.txt"
    mix.write_text("b=1,h=1,s=64,d=64,acc=fp16\nb=1,h=1,s=64,d=64 weight=3 # the heaviest\n")
    failed, found = evoflash.search_each(mix, gpu="l4", family="flash_wmma", budget=1, db=database)
    assert (failed.result, found.weight, found.result.spent) == (None, 3.0, 1)
    assert "flash_wmma has no kernel for" in str(failed)
    assert str(found).startswith(f"{found.problem}: ~")


def test_progress_hears_of_each_evaluation(result, heard) -> None:
    assert [step.spent for step in heard] == [1, 2]
    assert heard[-1].best == result.best
    assert str(heard[0]).startswith("1/2: ~")


def test_the_same_search_again_continues_and_spends_nothing(result, database) -> None:
    heard = []
    again = searched(database, heard)

    assert (again.spent, again.best.id, heard) == (2, result.best.id, [])


@pytest.mark.full
def test_a_search_on_workers_of_its_own_finds_the_same(result, tmp_path) -> None:
    pytest.importorskip("distributed")
    spread = evoflash.search(
        "mission", gpu="l4", family="flash_wmma", budget=2, db=str(tmp_path / "spread.db"), workers=1, ahead=2
    )
    assert (spread.spent, spread.best.id, spread.best.time_us) == (2, result.best.id, result.best.time_us)


def test_two_places_to_work_at_once_are_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="workers and scheduler say where to work in different ways"):
        evoflash.search(db=str(tmp_path / "none.db"), workers=1, scheduler="tcp://127.0.0.1:8786")


@pytest.mark.full
def test_an_interrupted_search_keeps_what_it_has(tmp_path) -> None:
    def stop(step: evoflash.Step) -> None:
        raise KeyboardInterrupt

    database = str(tmp_path / "stopped.db")
    result = evoflash.search(
        gpu="l4", family="flash_wmma", evaluator="emulated", budget=3, db=database, progress=stop
    )

    assert result.is_interrupted
    assert result.spent == 1
    assert result.best == evoflash.best(db=database)


def test_best_answers_with_the_kernel_of_the_search(result, database) -> None:
    assert evoflash.best("mission", db=database).id == result.best.id


def test_best_of_a_problem_that_was_never_searched_is_an_error(result, database) -> None:
    with pytest.raises(NoKernelError, match="search"):
        evoflash.best("decode8k", db=database)


def test_best_falls_back_to_the_archive_whose_time_is_marked(tmp_path, monkeypatch) -> None:
    """As `evoflash best --problem short256 --gpu h200` does on a machine without that GPU."""

    def absent(gpu: str | None) -> None:
        raise DeviceError("none here.")

    monkeypatch.setattr(answer, "present_spec", absent)
    kernel = evoflash.best("short256", gpu="h200", db=str(tmp_path / "none.db"))

    assert kernel.is_correct
    assert kernel.time_us is None
    assert kernel.time.startswith(f"{kernel.archived.us:.2f} us, archived, measured on")
    assert kernel.time in str(kernel)
    assert kernel.time in parsed(kernel._repr_html_()).text
    assert not (tmp_path / "none.db").exists()


def test_best_without_the_archive_has_the_database_alone(tmp_path) -> None:
    with pytest.raises(StoreError):
        evoflash.best("short256", gpu="h200", archive=False, db=str(tmp_path / "none.db"))


def test_the_leaderboard_has_the_rows_of_the_database(result, database) -> None:
    board = evoflash.leaderboard("mission", gpu="l4", db=database)

    assert board.rows[0]["genome_id"] == result.best.id
    assert len(board) == len(list(board))
    assert len(evoflash.leaderboard(family="flash_mma", db=database)) == 0
    assert len(evoflash.leaderboard(since="9999-01-01", db=database)) == 0


@pytest.mark.full
def test_a_kernel_can_be_evaluated_again_by_its_record_and_by_its_id(result, database) -> None:
    of_record = evoflash.evaluate(result.best, evaluator="emulated", db=database)
    of_id = evoflash.evaluate(result.best.id[:8], evaluator="emulated", db=database)

    assert of_record.id == of_id.id == result.best.id


def test_values_that_are_not_valid_are_refused(database) -> None:
    with pytest.raises(UsageError, match="stages"):
        evoflash.evaluate("flash_wmma", {"stages": 99}, gpu="l4", db=database)


def test_export_writes_what_the_kernel_holds(result, tmp_path) -> None:
    path = tmp_path / "kernel.cu"

    assert evoflash.export(result.best, path) == (path,)
    assert evoflash.export(result.best) == path.read_text() == result.best.cuda


@pytest.mark.parametrize("name", ["kernel.cu", "kernel.cubin", "attention.py", "torch_op.py", "t4.json"])
@pytest.mark.sample(3)
def test_python_exports_the_bytes_that_the_command_writes(name, result, database, tmp_path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()

    written = evoflash.export(result.best, ours / name, db=database)
    words = ["export", result.best.id, "--db", database, "-o", str(theirs / name)]
    with pytest.raises(SystemExit) as ended:
        cli.run_command(words)
    assert not ended.value.code

    assert {path.name: path.read_bytes() for path in written} == {
        path.name: path.read_bytes() for path in theirs.iterdir()
    }


def test_python_exports_by_kind_whatever_the_name(result, database, tmp_path) -> None:
    folder = evoflash.export(result.best, tmp_path / "mine", kind="hub", db=database)[0]

    assert (folder / "build" / "torch-cuda" / "launch.json").is_file()


def test_a_form_without_a_path_is_refused(result) -> None:
    with pytest.raises(UsageError, match="give a path"):
        evoflash.export(result.best, kind="hub")


class Tags(html.parser.HTMLParser):
    """Counts tags that were opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_a_kernel_as_html_has_verdict_marked_time_and_highlighted_source(result) -> None:
    tags = parsed(result.best._repr_html_())

    assert "correct" in tags.text
    assert "~" in tags.text
    assert "ESTIMATED" in tags.text
    assert "__global__" in tags.text
    assert tags.seen.count("span") > 100


def test_a_leaderboard_as_html_marks_its_estimates(result, database) -> None:
    tags = parsed(evoflash.leaderboard(db=database)._repr_html_())

    assert "not measured" in tags.text
    assert f"~{result.best.time_us:.4g}" in tags.text


def test_what_others_wrote_is_escaped_in_html() -> None:
    tags = parsed(failed("error: <script>alert(1)</script> & more")._repr_html_())

    assert "script" not in tags.seen
    assert "<script>alert(1)</script> & more" in tags.text


def test_a_kernel_whose_family_is_gone_is_shown_without_its_source() -> None:
    gone = api.Kernel(
        Evaluation(Genome("flash_gone", 1, ()), "mission", "l4", Basis.ESTIMATED, Status.CORRECT, Rung.DONE)
    )

    assert "flash_gone" in gone._repr_html_()
    assert "<details>" not in gone._repr_html_()


def test_an_empty_search_result_is_shown_in_words() -> None:
    assert "No kernel was correct" in api.SearchResult(None, 7)._repr_html_()


def test_a_type_checker_sees_the_types() -> None:
    assert (Path(evoflash.__file__).parent / "py.typed").exists()


# ---- stored runs, and errors


def test_every_error_that_docstrings_promise_can_be_caught_by_its_name() -> None:
    said = " ".join(getattr(evoflash, name).__doc__ or "" for name in FIRST)
    promised = set(re.findall(r"\b[A-Z]\w+Error\b", said))
    assert {"UsageError", "DeviceError", "StoreError", "NoKernelError"} <= promised
    assert promised <= set(evoflash.__all__)
    assert all(issubclass(getattr(evoflash, name), evoflash.EvoflashError) for name in ERRORS)


def test_an_error_speaks_of_arguments_and_not_of_options(database) -> None:
    with pytest.raises(evoflash.UsageError, match=r'for example gpu="l4"|gpu'):
        evoflash.search("mission", evaluator="emulated", budget=1, db=database)
    assert python_words("add --problem b=1,h=2 or --gpu l4; --set x", frozenset(("problem", "gpu"))) == (
        'add problem="b=1,h=2" or gpu="l4"; --set x'
    )
    assert python_words("give --problem and --gpu, or --run.", frozenset(("problem", "gpu", "run"))) == (
        "give problem and gpu, or run."
    )


def test_all_that_a_run_evaluated_is_rows_with_genes(result, database) -> None:
    rows = evoflash.evaluations(1, db=database)
    assert [row["position"] for row in rows] == [1, 2]
    assert rows[0]["values"] == {
        name.removeprefix("gene."): value for name, value in rows[0].items() if name.startswith("gene.")
    }
    assert "position" in str(rows).splitlines()[0]
    assert repr(rows).startswith("<Table of 2 rows: run, position, genome_id")
    assert "<pre" in rows._repr_html_()


def test_a_table_becomes_a_frame_where_pandas_is_installed(monkeypatch) -> None:
    table = evoflash.Table(({"a": 1, "b": None}, {"a": 2, "c": [3]}))
    assert table.columns == ("a", "b", "c")
    if importlib.util.find_spec("pandas"):
        assert list(table.frame().columns) == ["a", "b", "c"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        table.frame()


def test_runs_insights_and_report_are_those_of_the_commands(result, database, tmp_path) -> None:
    assert [run["id"] for run in evoflash.runs(db=database)][-1] == 1
    learnt = evoflash.insights(1, db=database)
    assert str(learnt).startswith("run 1: mission on l4, ")
    assert learnt.as_dict()["evaluated"] == 2
    page = tmp_path / "run.html"
    report = evoflash.report(1, page, db=database)
    assert page.read_text() == report.html
    assert report.as_dict()["run"]["id"] == 1
    assert repr(report) == "<RunReport of run 1>"
    with pytest.raises(UsageError, match="no run is called '99'"):
        evoflash.report(99, db=database)


def test_a_leaderboard_is_printed_as_the_command_prints_it(result, database) -> None:
    board = evoflash.leaderboard("mission", gpu="l4", db=database)
    assert "est. us" in str(board)
    assert "|" not in str(board)
    assert board.markdown.startswith("### ")


def test_a_kernel_is_checked_by_its_values_and_one_that_makes_no_sense_is_an_error(database) -> None:
    found = evoflash.check("flash_simt", {}, problem="b=1,h=1,s=64,d=64", gpu="l4", runs=1, db=database)
    assert (found.errors, found.as_dict()["verdict"]) == (0, "passed")
    assert repr(found).startswith("<KernelCheck: 0 errors")
    with pytest.raises(UsageError):
        evoflash.check("flash_simt", {"nonsense": 1}, gpu="l4", db=database)
