"""The GPU worker's decisions: who is to blame when a process, the GPU or its memory goes. Needs no GPU.

What runs in the processes is put in the place of the ladder's own steps; worker and processes are the real
ones. With real kernels on a real GPU: tests/on_gpu/test_survival.py and tests/on_gpu/test_machine.py.
"""

import ctypes
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tables import table_of_cases
from waiting import LIMIT_S

from evoflash.blame import begin_kernel
from evoflash.errors import DeviceError
from evoflash.evaluation import Rung, Status
from evoflash.gpu.launcher import cuda_errors, cupy, present_gpu
from evoflash.gpu.memory import NoRoomError
from evoflash.gpu.process.finals import FinalReport, FinalTask
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.gpu.process.rungs import Anchor, GpuTask
from evoflash.gpu.process.warm_up import Jobs
from evoflash.gpu.process.worker import GpuWorker
from evoflash.isolation import Ending
from evoflash.launch import LaunchConfig
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

(WORKLOAD,) = parse_problem("b=1,h=1,s=64,d=64").workloads
NO_DEVICE = 100  # cudaError_t


def task_of(name, *, workspace_bytes=0, timed=False, limit_s=LIMIT_S):
    launch = LaunchConfig("kernel", (1, 1, 1), (32, 1, 1), 0, workspace_bytes=workspace_bytes)
    shapes = ((WORKLOAD, (launch,)),)
    spec = load_gpu("h200")
    return GpuTask(name, spec, (), shapes, shapes if timed else (), seed=0, limit_s=limit_s)


def raise_cuda_error(code):
    raise cuda_errors()[0](code)


def count(folder):
    """How often this was called with the folder, this time included."""
    (Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()
    return len(list(Path(folder).iterdir()))


def behave(task):
    """What the task's name says, as a kernel that has got the better of its process would."""
    what, _, where = task.genome_id.partition(":")
    if what == "crash":
        begin_kernel()
        ctypes.string_at(0)
    if what == "crash before its kernel":
        ctypes.string_at(0)
    if what == "hang":
        time.sleep(3600)
    if what == "is lost":
        reason = "cudaErrorIllegalAddress: an illegal memory access was encountered"
        return GpuOutcome(what, Status.RUNTIME, Rung.SMOKE, reason, process_lost=True)
    if what == "no room" or (what == "room later" and count(where) < 3):
        raise NoRoomError("the GPU has no 512 MiB left: stop what else runs on it (nvidia-smi).")
    if what == "no room for the code" and count(where) < 2:
        reason = "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
        return GpuOutcome(what, Status.RUNTIME, Rung.SMOKE, reason, process_lost=True)
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)


def screened(task):
    """As behave(), but what is well is too slow."""
    outcome = behave(task)
    reason = f"{task.genome_id} against {task.rival_us:g} us"
    return replace(outcome, status=Status.SCREENED, reason=reason)


def who(task):
    """Says which process it is."""
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS, str(os.getpid()))


def note(folder, _, checks, timed, seed, *hurries):
    """Leave a file that says what was asked of which process."""
    (Path(folder) / f"{os.getpid()}-{len(checks)}-{seed}").touch()


def nothing(*_):
    """A GPU that is well, and no references to compute."""


def no_device():
    raise_cuda_error(NO_DEVICE)


def gone_when_told(folder, _):
    """The GPU is gone once there is a note that says so."""
    if (Path(folder) / "gone").exists():
        no_device()


def contexts_die_when_told(folder, _):
    """Contexts made before the note are dead after it, and new ones are well."""
    mine, note = Path(folder) / str(os.getpid()), Path(folder) / "gone"
    if mine.exists() and note.exists() and mine.stat().st_mtime_ns < note.stat().st_mtime_ns:
        no_device()
    if not mine.exists():
        mine.touch()


def full_until(folder, calls):
    if count(folder) <= calls:
        raise cupy().cuda.memory.OutOfMemoryError(1 << 20, 0, 0)


class After:
    """`function` with a folder in which its calls are counted: it is pickled to the processes."""

    def __init__(self, function, folder, calls):
        self.function, self.folder, self.calls = function, str(folder), calls

    def __call__(self, *given):
        self.function(self.folder, self.calls, *given)


NO_ROOM, DIES = 1, 2


def finals(task):
    """What the task's seed says."""
    if task.seed == NO_ROOM:
        raise NoRoomError("the GPU has no 512 MiB left: stop what else runs on it (nvidia-smi).")
    os._exit(3)


def made(warm_up=nothing, room_limit_s=0.0, references=nothing):
    jobs = Jobs(
        warm_up=warm_up,
        precompute_references=references,
        prepare_finals=nothing,
        screen=screened,
        check=behave,
        finals=finals,
    )
    return GpuWorker(jobs=jobs, room_limit_s=room_limit_s)


@pytest.fixture(scope="module")
def worker():
    with made() as it:
        yield it


@pytest.fixture(scope="module")
def patient():
    with made(room_limit_s=LIMIT_S) as it:
        yield it


def outcome_of(worker, name, **given):
    return worker.submit(task_of(name, **given)).result(timeout=LIMIT_S)


@table_of_cases()
def test_a_bad_kernel_costs_one_candidate_and_its_cost_is_known(worker, name, status, reason):
    outcome = outcome_of(worker, name, limit_s=1.0 if name == "hang" else LIMIT_S)
    assert (outcome.status, outcome.process_lost) == (status, True)
    assert reason in outcome.reason
    assert float(outcome.environment["lost_s"]) > 0
    assert outcome_of(worker, "good").status is Status.CORRECT


def test_a_process_that_dies_before_the_kernel_began_is_no_outcome_and_the_next_candidate_is_served(worker):
    with pytest.raises(DeviceError, match=r"die before a kernel begins in them .*signal 11"):
        outcome_of(worker, "crash before its kernel")
    assert outcome_of(worker, "well").status is Status.CORRECT


def test_without_an_anchor_nothing_is_too_slow_and_no_process_is_asked(worker):
    outcome = worker.screen(task_of("crash", timed=True)).result(timeout=LIMIT_S)
    assert (outcome.status, outcome.score_us) == (Status.CORRECT, None)


def test_a_task_is_screened_against_what_is_known_when_its_turn_comes(worker):
    anchor = Anchor(task_of("anchor", timed=True), (1.0,))
    task, rivals = task_of("good", timed=True), []

    def now(task):
        rivals.append(3.0)
        return replace(task, anchor=anchor, rival_us=rivals[-1])

    outcome = worker.screen(task, now=now).result(timeout=LIMIT_S)
    assert (outcome.status, outcome.reason) == (Status.SCREENED, "good against 3 us")
    crashed = worker.screen(task_of("crash", timed=True), now=now).result(timeout=LIMIT_S)
    assert (crashed.status, crashed.process_lost) == (Status.RUNTIME, True)
    assert rivals == [3.0, 3.0]


@pytest.mark.full
def test_hidden_shapes_and_finals_have_processes_of_their_own_that_began_beside_the_search(tmp_path):
    jobs = Jobs(nothing, After(note, tmp_path, 0), nothing, screened, who, nothing, finals)
    with GpuWorker(jobs=jobs) as worker:
        before = worker.submit(task_of("")).result(timeout=LIMIT_S).reason
        worker.prepare_finals((WORKLOAD,), 5)
        worker.begin_finals().result(timeout=LIMIT_S)
        after = worker.submit(task_of("")).result(timeout=LIMIT_S).reason
        again = worker.submit(task_of("")).result(timeout=LIMIT_S).reason
    assert before != after == again
    assert (tmp_path / f"{after}-1-5").exists()  # one hidden workload, and the seed


def test_a_gpu_that_is_gone_is_no_candidates_fault(tmp_path):
    with made(After(gone_when_told, tmp_path, 0)) as worker:
        assert outcome_of(worker, "good").status is Status.CORRECT
        (tmp_path / "gone").touch()
        with pytest.raises(DeviceError, match=r"cannot be used any more \(cudaErrorNoDevice") as caught:
            outcome_of(worker, "is lost")
    assert "the same command continues" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_a_gpu_that_was_never_there_is_said():
    with made(no_device) as worker, pytest.raises(DeviceError, match="nvidia-smi"):
        outcome_of(worker, "good")


@pytest.mark.full
def test_contexts_that_an_error_took_with_it_are_made_again(tmp_path):
    """Those of the processes that stand by died too."""
    with made(After(contexts_die_when_told, tmp_path, 0)) as worker:
        while len(list(tmp_path.iterdir())) < 3:
            assert outcome_of(worker, "good").status is Status.CORRECT
        (tmp_path / "gone").touch()
        assert outcome_of(worker, "is lost").status is Status.RUNTIME
        assert outcome_of(worker, "good").status is Status.CORRECT


def noted(folder, pause_s, checks, timed, seed, hurries=False):
    """References that take a while to compute: when that began and ended is written down."""
    began_s = time.monotonic()
    time.sleep(pause_s)
    (Path(folder) / str(os.getpid())).write_text(f"{began_s} {time.monotonic()}")


@pytest.mark.full
def test_stand_bys_leave_the_cores_to_the_first_process_until_it_has_its_references(tmp_path):
    with made(references=After(noted, tmp_path, 0.3)):
        end_s = time.monotonic() + LIMIT_S
        while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < end_s:
            time.sleep(0.05)
        spans = [tuple(map(float, path.read_text().split())) for path in sorted(tmp_path.iterdir())]
    first, *others = sorted(spans)
    assert len(others) == 2
    assert all(began_s >= first[1] for began_s, _ in others)


@pytest.mark.slow
@pytest.mark.parametrize("lack", ["room later", "no room for the code"])
@pytest.mark.full
def test_memory_that_another_program_gives_back_is_waited_for(patient, tmp_path, lack):
    assert outcome_of(patient, f"{lack}:{tmp_path}").status is Status.CORRECT
    assert len(list(tmp_path.iterdir())) > 1


def test_memory_that_another_program_keeps_ends_the_run_in_one_line(worker):
    with pytest.raises(DeviceError, match=r"no 512 MiB left.*the same command continues"):
        outcome_of(worker, "no room")


def test_a_candidate_that_wants_more_memory_than_there_is_is_refused_and_the_run_goes_on(worker):
    outcome = outcome_of(worker, "no room", workspace_bytes=1 << 40)
    assert (outcome.status, outcome.reason[:27]) == (Status.RUNTIME, "the GPU has no 512 MiB left")
    assert outcome_of(worker, "good").status is Status.CORRECT


@pytest.mark.parametrize(
    ("seed", "reason"), [(NO_ROOM, "no 512 MiB left"), (DIES, "the process ended with exit code 3")]
)
def test_finals_that_fail_cost_nothing_else(worker, seed, reason):
    task = FinalTask((), (WORKLOAD,), load_gpu("h200"), seed, baselines=())
    ending: Ending[FinalReport] = worker.finalists(task).result(timeout=LIMIT_S)
    assert (ending.value, ending.status) == (None, Status.RUNTIME)
    assert reason in ending.reason
    assert outcome_of(worker, "good").status is Status.CORRECT


@pytest.mark.slow
@pytest.mark.full
def test_a_context_that_has_no_room_is_waited_for(tmp_path):
    with made(After(full_until, tmp_path, 2), room_limit_s=LIMIT_S) as it:
        assert outcome_of(it, "good").status is Status.CORRECT


def timed_beside(folder, task, checked):
    """Proven at once, but for tasks that wait until two processes have been asked to time one: as long as it
    takes, where two should be, else so long that a second one would be noticed.
    """
    what, _, number = task.genome_id.partition(" ")
    if number:
        (Path(folder) / str(os.getpid())).touch()
        end_s = time.monotonic() + {"pair": LIMIT_S, "lone": LONE_S}[what]
        while len(list(Path(folder).iterdir())) < 2 and time.monotonic() < end_s:
            time.sleep(0.01)
    return replace(checked, rung=Rung.DONE, score_us=1.0, reason=str(len(list(Path(folder).iterdir()))))


def room():
    return 100, 120


def no_room():
    return 70, 120


LONE_S = 1.0


def sharing(tmp_path, memory=room, **jobs):
    given = {"check": behave, "screen": screened, "finals": finals, "prepare_finals": nothing} | jobs
    timing = Timed(tmp_path)
    all_jobs = Jobs(nothing, nothing, time_correct=timing, memory=memory, **given)
    return GpuWorker(jobs=all_jobs, room_limit_s=0.0, shares=True)


class Timed:
    """timed_beside() with its folder: it is pickled to the processes."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, task, checked):
        return timed_beside(self.folder, task, checked)


def two_of(worker, what):
    """Two tasks that each wait for the other."""
    both = [worker.submit(task_of(f"{what} {number}", timed=True)) for number in (1, 2)]
    return [each.result(timeout=LIMIT_S).reason for each in both]


@pytest.mark.slow
def test_once_a_kernel_is_proven_two_processes_share_the_gpu_until_the_finals(tmp_path):
    with sharing(tmp_path) as worker:
        assert outcome_of(worker, "good", timed=True).status is Status.CORRECT
        assert two_of(worker, "pair") == ["2", "2"]
        worker.begin_finals().result(timeout=LIMIT_S)
        for path in tmp_path.iterdir():
            path.unlink()
        assert two_of(worker, "lone") == ["1", "1"]


@pytest.mark.full
def test_where_the_gpu_has_no_room_for_a_second_process_there_is_none(tmp_path):
    with sharing(tmp_path, memory=no_room) as worker:
        assert outcome_of(worker, "good", timed=True).status is Status.CORRECT
        assert two_of(worker, "lone") == ["1", "1"]


@pytest.mark.full
def test_two_processes_do_not_share_the_gpu_unless_that_is_asked_for(tmp_path):
    jobs = Jobs(nothing, nothing, check=behave, time_correct=Timed(tmp_path), memory=room)
    with GpuWorker(jobs=jobs) as worker:
        assert outcome_of(worker, "good", timed=True).status is Status.CORRECT
        assert two_of(worker, "lone") == ["1", "1"]


class Collateral:
    """A kernel whose error takes the context of the process beside it with it, the first time."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, task):
        culprit, victim = (Path(self.folder) / name for name in ("culprit", "victim"))
        if task.genome_id == "culprit":
            culprit.touch()
            while not victim.exists():
                time.sleep(0.01)
            return behave(replace(task, genome_id="is lost"))
        if task.genome_id == "victim" and not victim.exists():
            victim.touch()
            time.sleep(3.0)  # until the other one's loss is known
            return behave(replace(task, genome_id="is lost"))
        return behave(task)


@pytest.mark.full
def test_a_kernel_whose_context_goes_with_that_of_the_process_beside_it_is_not_blamed(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    with sharing(tmp_path, check=Collateral(folder)) as worker:
        assert outcome_of(worker, "good", timed=True).status is Status.CORRECT
        both = [worker.submit(task_of(name)) for name in ("culprit", "victim")]
        culprit, victim = (each.result(timeout=LIMIT_S) for each in both)
    assert (culprit.status, culprit.process_lost) == (Status.RUNTIME, True)
    assert (victim.status, victim.process_lost) == (Status.CORRECT, False)


def test_without_a_gpu_the_worker_says_what_to_do():
    try:
        present_gpu()
    except DeviceError:
        with pytest.raises(DeviceError, match=r"search --gpu h200|pip install"):
            GpuWorker()
    else:
        pytest.skip("there is a GPU here")
