"""Terminals that lack letters: what is printed there has question marks, no traceback."""

import subprocess
import sys

import pytest
from places import ROOT, environment


@pytest.mark.parametrize("coding", ["latin-1", "ascii"])
def test_a_table_is_printed_where_its_lines_cannot_be(coding):
    done = subprocess.run(
        [sys.executable, "-m", "evoflash", "gpus"],
        cwd=ROOT,
        env=environment(PYTHONIOENCODING=coding),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, b"h200" in done.stdout) == (0, True)
