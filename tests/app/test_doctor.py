"""What must be there and what may be absent, and the exit codes that a monitor looks at."""

import pytest
from forked import evoflash

from evoflash.app import doctor
from evoflash.errors import UsageError


def test_what_is_required_is_named_as_the_command_names_it() -> None:
    assert doctor.wanted_subjects("gpu, NOISE") == {"GPU", "noise floor"}
    assert doctor.wanted_subjects("") == frozenset()
    with pytest.raises(UsageError, match=r"'gpus'. Did you mean gpu"):
        doctor.wanted_subjects("gpus")


@pytest.mark.parametrize(("require", "code", "state"), [("", 0, "absent"), ("gpu", 1, "missing")])
def test_a_gpu_that_is_hidden_is_absent_until_it_is_required(require: str, code: int, state: str) -> None:
    done = evoflash("doctor", "--require", require, CUDA_VISIBLE_DEVICES="")
    (line,) = [line for line in done.stdout.splitlines() if line.split()[1:2] == ["GPU"]]
    assert (done.returncode, line.split()[0]) == (code, state), done.stdout
    assert "worker processes" in done.stdout
