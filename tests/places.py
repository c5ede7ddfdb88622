"""Where the checkout and the shared parts of the tests are, for a test in any folder. Reads nothing."""

import os
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
FAULTS = TESTS / "faults"
FIXTURES = TESTS / "fixtures"
KERNELS = TESTS / "kernels"
TEMPLATES = TESTS / "templates"


def environment(**more: str) -> dict[str, str]:
    """This process's variables for another Python, which imports the checkout and what the tests share."""
    paths = [str(ROOT), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}
