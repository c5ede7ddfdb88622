"""What every test shares: folders of its own, golden files, and GPU tests that skip where there is no GPU."""

import ctypes
import difflib
import fcntl
import gc
import itertools
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from postgres_server import Server

# NumPy's threads would spin beside the processes of the other workers: the same seconds, twice the CPU time.
# NumPy reads this when it is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

gc.set_threshold(50_000)  # as evoflash.cli.program.main
gc.disable()  # until all tests are collected: what is made till then stays

# No test reads what a developer has set, nor does collecting them: an empty config file, no variable.
for _name in [name for name in os.environ if name.startswith("EVOFLASH_") and name != "EVOFLASH_CACHE_DIR"]:
    del os.environ[_name]
os.environ["EVOFLASH_CONFIG"] = os.devnull

# A busy machine takes longer than Hypothesis waits by default, and no test asserts times.
settings.register_profile("default run", deadline=None, max_examples=30)
settings.register_profile("full run", deadline=None)

_NUMBERS = itertools.count()
_SLOW_WEIGHT = 100  # a test that is marked slow takes seconds, most others take hundredths of one
GOLDEN = Path(__file__).parent / "tests" / "golden"
NO_GPU = "needs a CUDA GPU: run `python -m pytest -m gpu` on a machine that has one"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden/*")
    parser.addoption("--full", action="store_true", help="all cases of products that are else shared out")
    parser.addoption("--quick", action="store_true", help="the first case of each test, no slow test")
    parser.addoption(
        "--times", metavar="FILE", help="append each test's seconds as it ends, cut runs included"
    )


class _Times:
    """Seconds of each test with its fixtures, and whether it failed, a line a test, on the disk as soon as it
    has ended.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        self._seconds: Counter[str] = Counter()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)
            self._file.write(f"{report.longreprtext}\n")
        if report.when == "teardown":
            how = " failed" if report.nodeid in self._failed else ""
            self._file.write(f"{self._seconds.pop(report.nodeid):.2f} {report.nodeid}{how}\n")

    def pytest_unconfigure(self) -> None:
        self._file.close()


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("full run" if config.getoption("--full") else "default run")
    is_one_of_several = hasattr(config, "workerinput")  # of pytest-xdist: the first hears of all tests
    if (path := config.getoption("--times")) and not is_one_of_several:
        config.pluginmanager.register(_Times(path))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m gpu` no file without such a test is imported: each of several processes would wait for it."""
    if not collection_path.match("test_*.py") or config.getoption("markexpr").partition(" and ")[0] != "gpu":
        return None
    return "mark.gpu" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--full"):
        _leave_out(config, items, [item for item in items if "full" in item.keywords])
        _leave_out(config, items, _spare_cases([item for item in items if "cover" in item.keywords]))
        _leave_out(config, items, _outside_the_sample([item for item in items if "sample" in item.keywords]))
    if config.getoption("--quick"):
        _leave_out(config, items, [item for item in items if "slow" in item.keywords])
        firsts: dict[str, pytest.Item] = {}
        for item in items:
            firsts.setdefault(item.nodeid.partition("[")[0], item)
        chosen = set(firsts.values())
        _leave_out(config, items, [item for item in items if item not in chosen])
    _put_long_files_first(items)
    # By the mark and not by the keyword, which the folder tests/gpu is too.
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and not _gpu_present():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=NO_GPU))
    elif gpu_items:
        _put_what_waits_for_the_gpu_last(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Processes of pytest-xdist share the GPU. A test that is marked `takes_turns` leaves it to evoflash's
    processes which of them launches and which times, one without a mark keeps all of them from timing, and
    one that is marked `alone_on_gpu` has the GPU to itself.
    """
    if item.get_closest_marker("gpu") is None:
        os.environ.pop("EVOFLASH_GPU_TURNS", None)  # of a GPU test before
        return (yield)
    if "PYTEST_XDIST_TESTRUNUID" not in os.environ or not _gpu_present():
        return (yield)
    from evoflash.gpu import launcher

    is_alone, takes_turns = (item.get_closest_marker(name) for name in ("alone_on_gpu", "takes_turns"))
    shared = str(Path(tempfile.gettempdir()) / f"evoflash-gpu-{os.environ['PYTEST_XDIST_TESTRUNUID']}")
    with open(f"{shared}-tests", "a", encoding="utf-8") as tests:
        fcntl.flock(tests, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        os.environ["EVOFLASH_GPU_TURNS"] = shared  # for processes that begin later, too: a stand-by does
        launcher.share_gpu_by(shared)
        if not (is_alone or takes_turns):  # else its processes would wait for this one
            del os.environ["EVOFLASH_GPU_TURNS"]
        with nullcontext() if is_alone or takes_turns else launcher.beside_others():
            found = yield
        launcher.let_go()  # where a kernel failed as it was meant to
        return found


def pytest_collection_finish() -> None:
    gc.freeze()  # ten thousand tests and what they import: not to be looked through again and again
    gc.enable()


def _by_test(items: list[pytest.Item]) -> Collection[list[pytest.Function]]:
    """The cases of each test, in their order."""
    tests: dict[str, list[pytest.Function]] = {}
    for item in items:
        assert isinstance(item, pytest.Function)
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return tests.values()


def _spare_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """All but as few cases of each test as have every value of each of its parameters at least once."""
    spare: list[pytest.Item] = []
    for cases in _by_test(items):
        values = {case: {(n, repr(v)) for n, v in case.callspec.params.items()} for case in cases}
        missing: set[tuple[str, str]] = set().union(*values.values())
        shown: Counter[tuple[str, str]] = Counter()
        while (
            missing
        ):  # the case with most of what is missing; of equals the one of the rarest values, the first
            case = max(values, key=lambda it: (len(values[it] & missing), -sum(shown[v] for v in values[it])))
            missing -= values[case]
            shown.update(values.pop(case))
        spare += values
    return spare


def _outside_the_sample(items: list[pytest.Item]) -> list[pytest.Item]:
    """All but so many cases of each test as its mark `sample` says: those lie evenly among all of them."""
    spare: list[pytest.Item] = []
    for cases in _by_test(items):
        mark = cases[0].get_closest_marker("sample")
        assert mark is not None
        (count,) = mark.args
        kept = {at * len(cases) // count for at in range(count)}
        spare += [case for at, case in enumerate(cases) if at not in kept]
    return spare


def _put_long_files_first(items: list[pytest.Item]) -> None:
    """Files keep their tests together and in order; one that takes long must not be the last to be begun."""
    weight: Counter[Path] = Counter()
    for item in items:
        weight[item.path] += _SLOW_WEIGHT if "slow" in item.keywords else 1
    items.sort(key=lambda item: (-weight[item.path], item.path))


def _put_what_waits_for_the_gpu_last(items: list[pytest.Item]) -> None:
    """Of processes that share the GPU: what keeps the others from timing comes first, what times in turns
    then, and at the end what they all wait for.
    """
    marks = ("takes_turns", "alone_on_gpu")
    late = {item.path: at for at, mark in enumerate(marks, 1) for item in items if mark in item.keywords}
    items.sort(key=lambda item: late.get(item.path, 0))


def _leave_out(config: pytest.Config, items: list[pytest.Item], left_out: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=left_out)
    unwanted = set(left_out)
    items[:] = [item for item in items if item not in unwanted]


def _gpu_present() -> bool:
    # The driver library alone: neither CuPy nor NVML need be installed to learn that there is no GPU.
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache folder for the whole run: what a test compiled, the others find, in other workers too. Under
    scripts/test the pages' commands have it as well.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # a worker's folder is in the run's
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOFLASH_CACHE_DIR", os.environ.get("CACHE_OF_TESTS") or str(folder / "cache"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))  # logs of unexpected errors
        yield


@pytest.fixture(scope="module", autouse=True)
def _loaded_before_processes_begin(request: pytest.FixtureRequest) -> Iterator[None]:
    """What forks the processes of pools has loaded the test's module, where many find what they
    call, and CuPy, with which many compile: a tenth of a second in each.
    """
    from evoflash import spawning

    spawning._loaded_first.update((request.module.__name__, "cupy"))
    yield
    spawning._loaded_first.discard(request.module.__name__)


@pytest.fixture(autouse=True)
def _own_database(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test meets the user's database, nor another test's."""
    # Only a name: most of the 6,000 tests need no folder of their own.
    monkeypatch.setenv("EVOFLASH_DB", str(tmp_path_factory.getbasetemp() / f"{next(_NUMBERS)}.db"))


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command that a test runs in this process sets the log's level (-v, -q): later tests log as before."""
    logger = logging.getLogger("evoflash")
    level, handlers = logger.level, logger.handlers
    yield
    logger.setLevel(level)
    logger.handlers = handlers


@pytest.fixture(scope="session")
def postgres() -> Iterator["Server"]:
    """A PostgreSQL server; skipped where none is installed."""
    from postgres_server import running

    with running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What --db is given: a database that is not there yet, or a new store on a server."""
    if request.param == "sqlite":
        return str(tmp_path / "evoflash.db")
    server: Server = request.getfixturevalue("postgres")
    return server.store()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text must equal tests/golden/<name>; --update-golden writes it there."""
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        stored = path.read_text() if path.exists() else None
        if stored == text:
            return
        before = (stored or "").splitlines()
        diff = difflib.unified_diff(before, text.splitlines(), "stored", "now", lineterm="")
        what = "is not there" if stored is None else "differs"
        message = f"tests/golden/{name} {what}. Did you forget to run with --update-golden?"
        pytest.fail("\n".join([message, *diff]), pytrace=False)

    return compare
