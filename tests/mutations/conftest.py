"""A shipped operator that fails is left out of a search with one line; a test of operators must notice."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _no_operator_is_left_out(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.WARNING, logger="evoflash"):
        yield
    assert [message for message in caplog.messages if "is left out" in message] == []
