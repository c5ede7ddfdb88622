"""The device's reference of paged attention, run by the emulator: it gives what the host's gives in fp64."""

import numpy as np
import pytest

from evoflash.operations.expectations import every_row
from evoflash.operations.paged.inputs import draw
from evoflash.operations.paged.reference import REFERENCE, expect
from evoflash.operations.paged.workload import parse_workload
from tests.right_answers import answers_of, assert_told_of_rows


@pytest.mark.parametrize("name", ["normal", "needles", "some_empty", "apart", "huge_sinks", "normal-after"])
@pytest.mark.parametrize(
    "problem",
    [
        "b=3,h=4,hkv=2,sq=1,skv=70,d=64,page=16",
        "b=2,h=6,hkv=1,sq=5,skv=90,d=128,page=3,dtype=bf16,window=17,ragged,caller=append,lse=2",
        "b=4,h=2,hkv=2,sq=2,skv=41,d=32,page=24,softcap=5,sink,caller=csr",
        "b=2,h=20,hkv=1,sq=1,skv=33,d=256,page=1,dtype=bf16,sink=bf16,softcap=1e5,window=9",
    ],
)
@pytest.mark.sample(5)
def test_it_gives_what_the_host_gives(problem, name):
    workload = parse_workload(problem)
    trial = draw(name, workload, seed=3)
    expected = expect(workload, trial, where=every_row(workload))
    known, lse = expected.rows["O"], expected.numbers["LSE"].right.reshape(-1)

    found = answers_of(REFERENCE, workload, trial)

    of_rows = known.right.reshape(found["right"].shape)
    assert (np.abs(found["right"] - of_rows) <= 2e-6 * known.scale.rms.reshape(-1, 1)).all()
    np.testing.assert_allclose(found["numbers"], lse, atol=1e-6, rtol=1e-6)
    assert_told_of_rows(found["per_row"], known)


def test_what_takes_too_long_on_a_gpu_is_left_to_the_host():
    assert REFERENCE.applies(parse_workload("b=32,h=32,hkv=8,sq=1,skv=32768,d=128,page=16"))
    assert not REFERENCE.applies(parse_workload("b=64,h=128,hkv=8,sq=16,skv=262144,d=128,page=16"))
