"""A driver that records launches, for tests of several folders: built once."""

from collections.abc import Iterator
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
