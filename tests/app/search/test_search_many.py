"""`evoflash search --problems`: a run for each problem, what a failure costs, what is left when it ends."""

import contextlib
import io
import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import python_processes
from forked import evoflash
from places import environment
from rich.console import Console
from waiting import LIMIT_S, is_alive, until

from evoflash.app.search import many
from evoflash.app.search import many as side_by_side
from evoflash.app.search.machines import MachineOptions
from evoflash.app.search.session import RunResult
from evoflash.app.shape_files import WeightedProblem, read_problems
from evoflash.errors import DeviceError, EvoflashError, NoKernelError, StoreError, UsageError
from evoflash.problem import parse_problem
from evoflash.store.store import open_store
from evoflash.views import search as many_report
from tests.store.test_store import full_evaluation

SMALL, OTHER, NOT_OURS = "b=1,h=1,s=64,d=64", "b=1,h=1,s=96,d=64,causal", "b=1,h=1,s=64,d=64,acc=fp16"
EMULATED = ("search", "--gpu", "l4", "--evaluator", "emulated", "--family", "flash_wmma")


def weighted(*texts: str) -> list[WeightedProblem]:
    return [WeightedProblem(parse_problem(text), text, 1.0) for text in texts]


def found(us: float = 12.5) -> RunResult:
    return RunResult(replace(full_evaluation(), score_us=us), 7, library=("sdpa_flash", 2 * us))


def mix(folder: Path, *lines: str) -> Path:
    path = folder / "mix.txt"
    path.write_text("\n".join(lines))
    return path


def started(*arguments: object) -> "subprocess.Popen[str]":
    shown = environment(NO_COLOR="1", COLUMNS="80")
    return python_processes.evoflash(*EMULATED, *arguments, env=shown, start_new_session=True)


def spent(db: Path) -> dict[str, int]:
    with open_store(str(db), read_only=True) as store:
        return {run.key.problem: store.spent_budget(run) for run in store.runs()}


def begun(db: Path) -> list[int]:
    """As spent; empty before there is a database."""
    with contextlib.suppress(StoreError):
        return list(spent(db).values())
    return []


# ---- the file


def test_a_problem_that_is_named_twice_is_one_that_weighs_as_much_as_both(tmp_path: Path) -> None:
    path = mix(tmp_path, f"{SMALL} weight=2", "mission+mission,causal", "", f"{SMALL} # again")
    first, second = read_problems(path)
    assert (first.text, first.weight) == (SMALL, 3.0)
    assert (len(second.problem.workloads), second.weight) == (2, 1.0)


def test_a_line_that_is_no_problem_is_named_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mix\.txt:2: 'nonsense'"):
        read_problems(mix(tmp_path, SMALL, "nonsense"))


# ---- one after the other


def test_the_heaviest_is_first_and_outcomes_stand_in_the_order_of_the_file() -> None:
    light, heavy = weighted(SMALL, OTHER)
    heavy, begun = replace(heavy, weight=5.0), []
    outcomes = many.in_turn([light, heavy], lambda text: begun.append(text) or found(), lambda *_: None)
    assert begun == [OTHER, SMALL]
    assert [each.problem for each in outcomes] == [light, heavy]


@pytest.mark.parametrize("error", [UsageError("no"), DeviceError("no"), StoreError("no")])
def test_a_problem_that_fails_costs_only_itself(error: EvoflashError) -> None:
    def search(text: str) -> RunResult:
        if text == SMALL:
            raise error
        return found()

    failed, done = many.in_turn(weighted(SMALL, OTHER), search, lambda *_: None)
    assert (failed.error, failed.exit_code, done.error) == ("no", error.exit_code, "")
    with pytest.raises(EvoflashError, match="1 of 2 problems failed: the same command tries") as caught:
        many.check_results([failed, done])
    assert caught.value.exit_code == 1


def test_where_all_failed_alike_the_exit_code_is_theirs() -> None:
    nothing = many.in_turn(weighted(SMALL, OTHER), lambda _: RunResult(None, 3), lambda *_: None)
    with pytest.raises(EvoflashError) as caught:
        many.check_results(nothing)
    assert caught.value.exit_code == NoKernelError.exit_code


def test_ctrl_c_in_one_problem_begins_no_other() -> None:
    def search(text: str) -> RunResult:
        begun.append(text)
        raise KeyboardInterrupt

    begun: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        many.in_turn(weighted(SMALL, OTHER), search, lambda *_: None)
    assert begun == [SMALL]


# ---- the table


def printed(outcomes: list[many.ProblemResult]) -> list[str]:
    text = io.StringIO()
    many_report.print_summary(outcomes, Console(width=80, file=text, force_terminal=True, color_system=None))
    return text.getvalue().splitlines()


def test_the_table_says_best_over_what_and_evaluations_in_80_columns() -> None:
    long = "b=16,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=bf16"
    outcomes = many.in_turn(weighted(long), lambda _: found(), lambda *_: None)
    lines = printed(outcomes)
    row = next(line for line in lines if "12.50" in line)
    assert "2.00x sdpa_flash" in row
    assert "7" in row.split()
    assert max(map(len, lines)) <= 80


def test_json_has_a_result_or_an_error_for_each_problem() -> None:
    def search(text: str) -> RunResult:
        if text == SMALL:
            raise UsageError("no")
        return found()

    said = [each.as_dict() for each in many.in_turn(weighted(SMALL, OTHER), search, lambda *_: None)]
    failed, done = json.loads(json.dumps(said))
    assert (failed["error"], failed["result"]) == ("no", None)
    assert (done["error"], done["result"]["spent"], done["library"]["score_us"]) == (None, 7, 25.0)


# ---- several at a time


def test_workers_are_shared_out_and_none_is_left_over() -> None:
    assert [slot.asked.workers for slot in side_by_side.slots(MachineOptions(workers=5), 3)] == [2, 2, 1]
    assert [slot.asked.workers for slot in side_by_side.slots(MachineOptions(workers=2), 9)] == [1, 1]


@pytest.mark.parametrize(("asked", "problems"), [(MachineOptions(), 9), (MachineOptions(workers=4), 1)])
def test_one_search_at_a_time_has_everything(asked: MachineOptions, problems: int) -> None:
    assert side_by_side.slots(asked, problems) == (side_by_side.Slot(asked),)


def test_a_search_whose_process_dies_costs_only_itself_and_the_others_go_on(tmp_path: Path) -> None:
    problems = weighted(SMALL, OTHER)

    class Dies:
        """Ends the process that receives it."""

        def __reduce__(self) -> tuple[object, tuple[int]]:
            return os._exit, (9,)

    slots = [side_by_side.Slot(MachineOptions(tls=Dies())), side_by_side.Slot(MachineOptions(tls=Dies()))]  # type: ignore[arg-type]
    outcomes = side_by_side.at_once(problems, None, slots, lambda *_: None)  # type: ignore[arg-type]
    assert [each.error for each in outcomes] == [
        "its process ended with 9: the same command continues it."
    ] * 2


@pytest.mark.slow
def test_a_mix_is_searched_continued_and_summed_up_though_one_problem_has_no_kernel(tmp_path: Path) -> None:
    path, db = mix(tmp_path, SMALL, NOT_OURS, OTHER), tmp_path / "a.db"
    for more, budget in (((), 1), (("--workers", 2), 2)):
        words = (*EMULATED, "--problems", path, "--budget", budget, "--db", db, *more)
        done = evoflash(*map(str, words), COLUMNS="80")
        assert done.returncode == 1, done.stderr
        assert "1 of 3 problems failed" in done.stderr.splitlines()[-1]
        lines = [line for line in done.stdout.splitlines() if line.startswith("b=1,h=1,s=")]
        assert [f"  {budget}  " in line for line in lines][:1]
        assert sorted(spent(db).values()) == [budget, budget]


@pytest.mark.parametrize(("end", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.sample(1)
@pytest.mark.full
def test_when_the_command_ends_no_search_goes_on_and_the_same_command_continues(
    tmp_path: Path, end: signal.Signals, code: int
) -> None:
    path, db = mix(tmp_path, SMALL, OTHER), tmp_path / "a.db"
    command = ("--problems", path, "--workers", "2", "--db", db)
    search = started(*command, "--budget", "500")
    until(lambda: sorted(map(bool, begun(db))) == [True, True], what="outcomes of both")
    started_by_it = [int(word) for word in children(search.pid)]
    search.send_signal(end)
    search.communicate(timeout=LIMIT_S)
    assert search.returncode == code
    until(lambda: not any(map(is_alive, started_by_it)), what="the end of its processes")
    before = spent(db)
    again = started(*command, "--budget", max(before.values()))
    _, said = again.communicate(timeout=LIMIT_S)
    assert again.returncode == 0, said
    assert set(spent(db).values()) == {max(before.values())}


def children(process: int) -> list[str]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [*listed, *(deeper for child in listed for deeper in children(int(child)))]
