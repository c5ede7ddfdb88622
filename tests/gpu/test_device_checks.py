"""What inspects device memory, run by the emulator; what it spares the host is judged the same."""

import numpy as np
import pytest

from evoflash.emulator import launch as emulator
from evoflash.gpu import comparisons as device_checks
from evoflash.kernels import gxx
from evoflash.launch import LaunchConfig
from evoflash.numerics import decode, encode
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.reference import expect, sample
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.validation.validator import judge, part_of

GROUPS = 1000  # not a multiple of the 512 threads: the last round is a part of one


def asked(entry, arrays, *arguments):
    """What a kernel answers about 16-bit arrays; None of its threads may leave them."""
    library = gxx.build(device_checks.SOURCE.read_text(), name="inspection")
    with emulator.Memory() as memory:
        given = [memory.array(f"in{i}", x.shape, x.dtype, fill=x) for i, x in enumerate(arrays)]
        answer = memory.array("answer", (1,), np.uint32, writable=True)
        pointers = [np.uint64(x.ctypes.data) for x in given]
        values = [*pointers, np.int64(arrays[0].nbytes // device_checks.GROUP_BYTES), *arguments]
        launch = LaunchConfig(entry, (2, 1, 1), (256, 1, 1), 0)
        emulation = emulator.run_launch(library, launch, [*values, np.uint64(answer.ctypes.data)])
        assert emulation.reports == ()
        return int(answer[0])


def finite_bits(dtype):
    values = np.random.default_rng(5).standard_normal(8 * GROUPS).astype(np.float32)
    return encode(values, dtype)


@pytest.mark.parametrize("at", [0, 1, 511 * 8, 512 * 8 + 7, 8 * GROUPS - 1])
@pytest.mark.parametrize("bit", [0, 15])
def test_one_bit_that_differs_is_seen_wherever_it_is(at, bit):
    first = np.random.default_rng(at).integers(0, 65536, 8 * GROUPS, dtype=np.uint16)
    second = first.copy()
    assert asked("differ", [first, second]) == 0
    second[at] ^= 1 << bit
    assert asked("differ", [first, second]) == 1


@pytest.mark.parametrize("at", [1, 512 * 8 + 6, 8 * GROUPS - 1])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("fp16", 0x7C00),
        ("fp16", 0xFC00),
        ("fp16", 0x7E01),
        ("bf16", 0x7F80),
        ("bf16", 0xFF80),
        ("bf16", 0x7FC0),
    ],
)
def test_one_nan_or_infinity_is_seen_wherever_it_is(dtype, value, at):
    bits = finite_bits(dtype)
    bits[at] = value
    assert asked("non_finite", [bits], device_checks.exponent_mask(dtype)) == 1


@pytest.mark.parametrize(("dtype", "largest"), [("fp16", 0x7BFF), ("bf16", 0x7F7F)])
def test_the_largest_finite_values_are_no_finding(dtype, largest):
    bits = finite_bits(dtype)
    bits[::3], bits[1::7] = largest, largest | 0x8000
    assert asked("non_finite", [bits], device_checks.exponent_mask(dtype)) == 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_kernels_compile_for_the_gpu(arch):
    with open(device_checks.cubin_path(arch), "rb") as cubin:
        text = cubin.read()
    assert b"differ" in text
    assert b"non_finite" in text


class Bytes:
    """An array as CuPy shows one: a size and an address."""

    def __init__(self, nbytes, pointer):
        self.nbytes, self.data = nbytes, type("Data", (), {"ptr": pointer})


def test_bytes_that_would_be_left_out_are_refused():
    with pytest.raises(ValueError, match="40 bytes"):
        device_checks.differ(Bytes(40, 512), Bytes(40, 1024))
    with pytest.raises(ValueError, match="64 bytes"):
        device_checks.differ(Bytes(32, 512), Bytes(64, 1024))
    with pytest.raises(ValueError, match="0x208"):
        device_checks.holds_non_finite(Bytes(32, 520), dtype="fp16")


def test_a_part_of_an_output_is_judged_as_the_whole():
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64)
    trial = draw("normal", workload, seed=1)
    where = sample(workload, np.random.default_rng(1))
    assert len(where.groups) < workload.heads
    expected = expect(workload, trial, where=where)
    whole = dense.output(np.zeros_like(trial.q), np.zeros((1, 16, 1100), np.float32))
    at = np.ix_([0], where.groups, where.rows)
    whole.tensors["O"][at] = encode(expected.rows["O"].right[None] * 1.002, "fp16")
    whole.tensors["LSE"][at] = expected.numbers["LSE"].right
    part = part_of(whole, where, workload=workload)
    verdict = judge(workload, [(trial, expected, part)])
    assert verdict == judge(workload, [(trial, expected, whole)])
    assert "rel_l2" in verdict.reason
    assert decode(part.tensors["O"], "fp16").shape == expected.rows["O"].right.shape


def test_a_nan_outside_the_sample_fails_the_part_too():
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64)
    trial = draw("normal", workload, seed=1)
    where = sample(workload, np.random.default_rng(1))
    expected = expect(workload, trial, where=where)
    outside = next(head for head in range(16) if head not in where.groups)
    whole = dense.output(np.zeros_like(trial.q), np.zeros((1, 16, 1100), np.float32))
    whole.tensors["O"][0, outside, 7, 3] = 0x7E00
    verdict = judge(workload, [(trial, expected, part_of(whole, where, workload=workload))])
    assert f"h={outside} row=7 col=3" in verdict.reason
