"""What compares outputs on the device, run by the emulator: it finds what the validator finds on the host."""

import numpy as np
import pytest
from comparing_device import Device
from tables import table_of_cases

from evoflash.gpu import comparisons
from evoflash.gpu.comparisons import (
    FiniteMemory,
    MemoryPair,
    Numbers,
    RowComparison,
    Side,
    UntouchedRows,
    read_results,
)
from evoflash.gpu.memory import layouts_of
from evoflash.numerics import decode, encode
from evoflash.operations.attention.forms import dense
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.reference import expect
from evoflash.operations.attention.relations import keeps_heads_apart
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.operations.expectations import every_row
from evoflash.validation import metamorphic, validator
from evoflash.workload import Output, Rows

SHAPE = AttentionWorkload(2, 4, 2, 37, 50, 64)  # 296 rows: more than the threads of one block


@pytest.fixture
def device():
    made = Device()
    with made.memory:
        yield made


def output_near(expected, dtype, *, off=0.0, seed=0):
    """The right output with errors of that size, relative to each element."""
    rng = np.random.default_rng(seed)
    right = expected.rows["O"].right
    noisy = right * (1 + off * rng.standard_normal(right.shape))
    lse = expected.numbers["LSE"].right + off * rng.standard_normal(right.shape[:2])
    return encode(noisy, dtype), lse.astype(np.float32)


def measured_both_ways(device, workload, bits, lse, *, right=None):
    """What the device finds, and the validator's errors."""
    trial = draw("normal", workload, seed=3)
    expected = expect(workload, trial, where=every_row(workload))
    known = expected.rows["O"].right if right is None else right
    numbers = Numbers(device.put(lse), device.put(expected.numbers["LSE"].right), 1e-3, 1e-5, 0.0)
    rows, columns = lse.size, workload.head_dim
    new, is_single = Side(device.put(bits)), known.dtype == np.float32
    made = RowComparison(rows, columns, workload.dtype, new, Side(), device.put(known), is_single, numbers)
    shape = workload.batch, workload.heads, workload.seq_q
    output = dense.output(bits.reshape(*shape, -1), lse.reshape(shape))
    (found,) = read_results(device.ask([made]))
    return found, validator.measure(workload, trial, expected, output)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("off", [0.0, 1e-3, 0.3])
def test_errors_are_those_that_the_host_measures(device, dtype, causal, off):
    lengths = (37, 20) if causal else (37, 50)  # rows that see nothing
    workload = AttentionWorkload(2, 4, 2, *lengths, 64, dtype, causal)
    expected = expect(workload, draw("normal", workload, seed=3), where=every_row(workload))
    found, errors = measured_both_ways(device, workload, *output_near(expected, dtype, off=off))
    assert found.squared == pytest.approx(errors.squared, rel=1e-12)
    assert found.before_squared == pytest.approx(errors.reference_squared, rel=1e-12)
    assert found.max_over_rms == pytest.approx(errors.max_over_rms, rel=1e-12)
    assert found.number == pytest.approx(errors.lse, rel=1e-12)
    assert found.number_error == pytest.approx(errors.lse_error, rel=1e-12)
    assert found.broken == 0
    at = np.unravel_index(found.number_row, (2, 4, 37))
    if off:
        assert errors.lse_where == f"b={at[0]} h={at[1]} row={at[2]}"


@pytest.mark.parametrize(("value", "row"), [(0x7E00, 0), (0x7C00, 295), (0xFC00, 256)])
def test_an_element_that_is_not_finite_is_counted(device, value, row):
    expected = expect(SHAPE, draw("normal", SHAPE, seed=3), where=every_row(SHAPE))
    bits, lse = output_near(expected, "fp16")
    bits.reshape(-1, 64)[row, 5] = value
    found, errors = measured_both_ways(device, SHAPE, bits, lse)
    assert found.broken == 1
    assert errors.broken


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_infinitely_far_away(device, value):
    expected = expect(SHAPE, draw("normal", SHAPE, seed=3), where=every_row(SHAPE))
    bits, lse = output_near(expected, "fp16")
    lse.reshape(-1)[130] = value
    found, errors = measured_both_ways(device, SHAPE, bits, lse)
    assert (found.number, found.number_error, found.number_row) == (np.inf, np.inf, 130)
    assert errors.lse == np.inf


def test_one_wrong_element_is_found_in_its_place(device):
    expected = expect(SHAPE, draw("normal", SHAPE, seed=3), where=every_row(SHAPE))
    bits, lse = output_near(expected, "fp16")
    bits.reshape(-1, 64)[261, 17] ^= 0x4000
    found, errors = measured_both_ways(device, SHAPE, bits, lse)
    assert found.worst == (261, 17)
    assert errors.where.endswith(f"row={261 % 37} col=17")


def test_a_reference_in_single_precision_gives_the_same_but_for_its_rounding(device):
    expected = expect(SHAPE, draw("normal", SHAPE, seed=3), where=every_row(SHAPE))
    bits, lse = output_near(expected, "fp16", off=1e-3)
    right = expected.rows["O"].right.astype(np.float32)
    found, errors = measured_both_ways(device, SHAPE, bits, lse, right=right)
    assert found.squared == pytest.approx(errors.squared, rel=1e-3)


def test_a_strided_output_is_read_where_it_lies(device):
    layout = layouts_of(dense.tensors(SHAPE), is_strided=True)["O"]
    expected = expect(SHAPE, draw("normal", SHAPE, seed=3), where=every_row(SHAPE))
    bits, _ = output_near(expected, "fp16", off=1e-3)
    right = device.put(expected.rows["O"].right)
    image = layout.image(bits.reshape(2, 4, 37, 64)).view(np.uint16)
    apart = Side(device.put(image), 0, device.put(layout.row_offsets()))
    made = [RowComparison(296, 64, "fp16", side, Side(), right) for side in (apart, Side(device.put(bits)))]
    there, packed = read_results(device.ask(made))
    assert there == packed


@pytest.mark.parametrize("nudge", [0.0, 0.05])
def test_a_relation_is_judged_as_on_the_host(device, nudge):
    """Exchanged heads, of an output that follows, but for one element."""
    trial = draw("normal", SHAPE, seed=3)
    relation = keeps_heads_apart(trial, workload=SHAPE, rng=np.random.default_rng(1))
    assert isinstance(relation.before, Rows)
    first = draw("outliers", SHAPE, seed=4).q
    second = first.reshape(-1, 64)[relation.before.rows].copy()
    second[77, 3] = encode(decode(second[77, 3:4], "fp16") + nudge, "fp16")[0]  # among numbers of about 1
    outputs = {id(trial): Output({"O": first}), id(relation.after.runs[0]): Output({"O": second})}
    said = metamorphic.complaint(lambda x: outputs[id(x)], [relation], workload=SHAPE)
    old = Side(device.put(first), 0, device.put(relation.before.rows * 64))
    (found,) = read_results(device.ask([RowComparison(296, 64, "fp16", Side(device.put(second)), old)]))
    at = {"at": found.worst, "spec": dense.tensors(SHAPE)[3], "workload": SHAPE}
    assert said == metamorphic.drift_of_worst("exchanged batches and heads", found.max_over_rms, **at)
    assert bool(said) is bool(nudge)


def test_two_runs_are_added_up(device):
    a, b = (draw(name, SHAPE, seed=4).q for name in ("normal", "outliers"))
    total = a.view(np.float16).astype(np.float32) + b.view(np.float16).astype(np.float32)
    side = Side(device.put(a), device.put(b))
    right = device.put(total.astype(np.float64))
    (found,) = read_results(device.ask([RowComparison(296, 64, "fp16", side, Side(), right)]))
    assert found.squared == 0
    assert found.before_squared == pytest.approx(float((total.astype(np.float64) ** 2).sum()), rel=1e-12)


@pytest.mark.parametrize(("words", "offset"), [(1, 0), (4096, 0), (4099, 0), (4099, 1)])
def test_every_word_that_differs_is_counted(device, words, offset):
    first = np.random.default_rng(1).integers(0, 2**32, words + offset, dtype=np.uint32)
    second = first.copy()
    places = np.unique([0, words // 2, words - 1]) + offset
    second[places] ^= 1 << 31
    at = [device.put(x) + 4 * offset for x in (first, second)]
    pairs = [MemoryPair(*at, 4 * words), MemoryPair(at[0], at[0], 4 * words)]
    np.testing.assert_array_equal(device.ask(pairs)[:, 0], [len(places), 0])


def test_words_between_rows_are_compared_and_rows_are_not(device):
    first = np.arange(10 * 12, dtype=np.uint32).reshape(10, 12)
    second = first.copy()
    second[:, :8] += 1
    pair = MemoryPair(device.put(first), device.put(second), first.nbytes, 48, 32)
    assert device.ask([pair])[0, 0] == 0
    second[7, 9] += 1
    pair = MemoryPair(device.put(first), device.put(second), first.nbytes, 48, 32)
    assert device.ask([pair])[0, 0] == 1


def test_what_should_be_zero_is_compared_with_nothing(device):
    zeros, one = np.zeros(1000, np.uint32), np.zeros(1000, np.uint32)
    one[999] = 1
    pairs = [MemoryPair(device.put(x), 0, x.nbytes) for x in (zeros, one)]
    np.testing.assert_array_equal(device.ask(pairs)[:, 0], [0, 1])


def test_rows_that_a_change_must_not_reach_and_those_that_it_must(device):
    before = draw("normal", SHAPE, seed=4).q.copy()
    after = before.copy()
    after[0, 1, 20:] ^= 1  # one head of eight is enough
    after[1, 3, 4, 63] ^= 1
    after[:, :, 30] = before[:, :, 30]
    made = UntouchedRows(device.put(before), device.put(after), 8, 37, 128, 20)
    np.testing.assert_array_equal(device.ask([made]), [[1, 1]])
    made = UntouchedRows(device.put(before), device.put(before), 8, 37, 128, 37)
    np.testing.assert_array_equal(device.ask([made]), [[0, 0]])


GROUPS = 1000  # of 16 bytes; not a multiple of the threads: the last round is a part of one


@pytest.mark.parametrize("at", [0, 1, 511 * 8, 512 * 8 + 7, 8 * GROUPS - 1])
@pytest.mark.parametrize("bit", [0, 15])
def test_one_bit_that_differs_is_seen_wherever_it_is(device, at, bit):
    first = np.random.default_rng(at).integers(0, 65536, 8 * GROUPS, dtype=np.uint16)
    second = first.copy()
    second[at] ^= 1 << bit
    one, same, other = (device.put(x) for x in (first, first, second))
    pairs = [MemoryPair(one, same, first.nbytes), MemoryPair(one, other, first.nbytes)]
    np.testing.assert_array_equal(device.ask(pairs)[:, 0], [0, 1])


def finite_bits(dtype):
    values = np.random.default_rng(5).standard_normal(8 * GROUPS).astype(np.float32)
    return encode(values, dtype)


def is_finite(device, bits, dtype, *, offset=0):
    place = device.put(bits) + 2 * offset
    return device.ask([FiniteMemory(place, bits.nbytes - 2 * offset, dtype)])[0, 0] == 0


@pytest.mark.parametrize("at", [1, 512 * 8 + 6, 8 * GROUPS - 1])
@table_of_cases()
def test_one_nan_or_infinity_is_seen_wherever_it_is(device, dtype, value, at):
    bits = finite_bits(dtype)
    bits[at] = value
    assert not is_finite(device, bits, dtype)
    assert not is_finite(device, bits, dtype, offset=at // 2 * 2 and 2)  # not in groups


@pytest.mark.parametrize(("dtype", "largest"), [("fp16", 0x7BFF), ("bf16", 0x7F7F)])
def test_the_largest_finite_values_are_no_finding(device, dtype, largest):
    bits = finite_bits(dtype)
    bits[::3], bits[1::7] = largest, largest | 0x8000
    assert is_finite(device, bits, dtype)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_kernels_compile_for_the_gpu(arch):
    with open(comparisons.cubin_path(arch), "rb") as cubin:
        text = cubin.read()
    for entry in (b"differing_words", b"non_finite", b"measured_rows", b"reached_rows"):
        assert entry in text


class Bytes:
    """An array as CuPy shows one: a size and an address."""

    def __init__(self, nbytes, pointer):
        self.nbytes, self.data = nbytes, type("Data", (), {"ptr": pointer})


def test_bytes_that_would_be_left_out_are_refused():
    with pytest.raises(ValueError, match="42 bytes"):
        comparisons.differ(Bytes(42, 512), Bytes(42, 1024))
    with pytest.raises(ValueError, match="64 bytes"):
        comparisons.differ(Bytes(32, 512), Bytes(64, 1024))
    with pytest.raises(ValueError, match="0x20a"):
        comparisons.holds_non_finite(Bytes(32, 522), dtype="fp16")
