"""The frauds on a GPU: each is rejected by the rung that is named for it, each honest kernel accepted."""

import pytest

from evoflash.trust.selftest.corpus import corpus
from evoflash.trust.selftest.run import self_test
from evoflash.trust.selftest.staged_frauds import CHEATS

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns, pytest.mark.slow]


@pytest.fixture(scope="session")
def found(spec):
    """All of them at once: compiled in parallel, a GPU process for each that loses one.

    What the emulator says to them needs no GPU, but CPU minutes: tests/trust/selftest asks it.
    """
    return {each.name: each for each in self_test(only="GPU", time_limit_s=900.0).outcomes}


@pytest.mark.parametrize("name", [each.name for each in (*corpus(), *CHEATS)])
def test_it_ends_as_it_must(name, found):
    assert found[name].is_good, found[name]
