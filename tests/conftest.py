"""For tests of several folders: a driver that records launches, built once, and families of a test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recording import Recorder, build


@pytest.fixture(scope="session")
def recording_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recording"))


@pytest.fixture
def recorder(recording_driver: Path) -> Iterator[Recorder]:
    made = Recorder(recording_driver)
    yield made
    made.reset()


@pytest.fixture
def use_templates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """`use_templates(folder)`: its families are a user's own, until the test's end."""
    from evoflash.kernels.family import load_family  # here: not every run of tests needs it

    def use(folder: Path) -> None:
        monkeypatch.setenv("EVOFLASH_TEMPLATES", str(folder))
        load_family.cache_clear()

    yield use
    load_family.cache_clear()
