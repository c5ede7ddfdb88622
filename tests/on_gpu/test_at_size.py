"""At the benchmark's shape nearly everything is checked on the GPU itself: every byte, as on the host."""

import time

import numpy as np
import pytest
from on_gpu import planted

from evoflash.evaluation import Rung, Status
from evoflash.gpu import arena as memory
from evoflash.gpu.arena import Arena, MemoryFaultError, Original, keep_on_device
from evoflash.gpu.comparisons import differ
from evoflash.gpu.launcher import cupy, settle
from evoflash.gpu.memory import GUARD_BYTES
from evoflash.gpu.process.right_answers import compute_right
from evoflash.numerics import encode
from evoflash.operations.attention import inputs as trials
from evoflash.operations.attention import reference
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.validation import validator
from evoflash.validation.cases import large_case

pytestmark = [pytest.mark.gpu, pytest.mark.takes_turns]

SMALL = AttentionWorkload(1, 2, 1, 64, 64, 64)
# 8 of 64 heads and half of the rows are compared.
LONG = AttentionWorkload(1, planted.BIG_HEADS, 8, 2048, 2048, 64)
MEDIUM = AttentionWorkload(1, 16, 4, 1100, 1100, 64)


def task(spec, cubins, fault="none", name=""):
    return planted.task_of(spec, cubins, checks=[SMALL], timed=[LONG], fault=fault, name=name)


def test_a_correct_kernel_passes_and_the_second_one_uploads_nothing(worker, spec, cubins):
    for name in ("first", "second", "third"):
        started = time.monotonic()
        outcome = worker.submit(task(spec, cubins, name=name)).result()
        print(f"\n{name}: {time.monotonic() - started:.2f} s")
        assert (outcome.status, outcome.rung) == (Status.CORRECT, Rung.DONE), outcome.reason
        assert len(outcome.verdicts) == 3  # a check shape, at size, after timing


def test_the_planted_mistakes_lie_where_no_reference_looks(spec, cubins):
    seed = task(spec, cubins).seed
    for name in trials.AT_SIZE:
        where = large_case(LONG, name, seed)[1].sample
        assert planted.HIDDEN_HEAD not in where.groups
        assert len(where.rows) < LONG.seq_q


@pytest.mark.parametrize("name", ["normal", "needles", "some_empty", "normal-after"])
@pytest.mark.parametrize(
    "problem",
    [
        "b=5,h=8,hkv=2,sq=1,skv=9000,d=128,page=16,dtype=bf16,lengths=prod",
        "b=3,h=10,hkv=2,sq=4,skv=700,d=80,page=1,window=100,softcap=20,sink=bf16,ragged,caller=append,lse=2",
        "b=4,h=4,hkv=4,sq=2,skv=300,d=256,page=48,sink,caller=csr",
        "serving_llama70b_tp8_b32_32k,b=32,h=32,hkv=8",
    ],
)
def test_the_gpus_right_answers_on_pages_are_the_hosts(spec, problem, name):
    (workload,) = parse_problem(problem).workloads
    inputs, expected = large_case(workload, name, 5)
    kept = keep_on_device(inputs)
    assert isinstance(kept, Original)
    addresses = {tensor: int(image.data.ptr) for tensor, image in kept.images.items()}
    started = time.monotonic()

    right = compute_right(workload, addresses, expected)  # compares: DeviceError where they differ

    print(f"\n{workload}, {name}: {time.monotonic() - started:.2f} s")
    assert right.is_whole(workload)
    assert right.scale.honest_squared > 0


CASES = [
    ("has one wrong row in one head at size", f"h={planted.HIDDEN_HEAD} row={LONG.seq_q // 2}"),
    ("writes just past O at size", "wrote outside O"),
    ("writes into K at size", "changed its input K"),
    ("leaves a NaN in one head at size", f"h={planted.HIDDEN_HEAD} row={LONG.seq_q // 2} col=7"),
    ("gives another result each time in one head at size", "two runs on the same input differ in"),
]


@pytest.mark.parametrize(("fault", "reason"), CASES)
def test_a_mistake_at_size_alone_is_found_and_costs_one_candidate(worker, spec, cubins, fault, reason):
    bad = worker.submit(task(spec, cubins, fault))
    good = worker.submit(task(spec, cubins))
    outcome, after = bad.result(), good.result()
    print(f"\n{fault}: {outcome.status} at {outcome.rung}: {outcome.reason}")
    assert (outcome.status, outcome.rung) == (Status.CORRECTNESS, Rung.CORRECTNESS)
    assert reason in outcome.reason
    assert after.status is Status.CORRECT, after.reason


@pytest.fixture
def arena(spec):
    return Arena(MEDIUM, rng=np.random.default_rng(1))


@pytest.fixture
def trial():
    return trials.draw("normal", MEDIUM, seed=1)


def flip(array, at):
    """Change one bit of a byte on the device."""
    place = array[at:][:1]
    place.set(place.get() ^ np.uint8(1))
    settle()


@pytest.mark.parametrize("is_resident", [True, False])
@pytest.mark.parametrize("name", ["Q", "K", "V"])
@pytest.mark.parametrize("at", [0, 12345, -1])
def test_one_changed_bit_of_an_input_is_found(arena, trial, monkeypatch, is_resident, name, at):
    monkeypatch.setattr(memory, "has_room", lambda _: is_resident)
    inputs = keep_on_device(trial)
    assert isinstance(inputs, Original) is is_resident
    arena.load(inputs)
    arena.check_memory()
    payload = arena.buffers[name].device_bytes
    flip(payload, at % payload.nbytes)
    with pytest.raises(MemoryFaultError, match=f"changed its input {name}"):
        arena.check_memory()
    arena.load(inputs)
    arena.check_memory()


@pytest.mark.parametrize("name", ["Q", "K", "V", "O", "LSE"])
@pytest.mark.parametrize("side", ["before its start", "past its end"])
def test_one_changed_bit_of_a_band_is_found(arena, trial, name, side):
    arena.load(keep_on_device(trial))
    band = arena.buffers[name]._memory
    flip(band, 0 if side == "before its start" else band.nbytes - 1)
    with pytest.raises(MemoryFaultError, match=f"wrote outside {name}: 1 bytes {side}"):
        arena.check_memory()


@pytest.mark.parametrize("is_resident", [True, False])
def test_one_changed_bit_is_found_among_many_arenas(arena, trial, spec, monkeypatch, is_resident):
    monkeypatch.setattr(memory, "has_room", lambda _: is_resident)
    other = Arena(MEDIUM, rng=np.random.default_rng(2), step=16)
    for each in (arena, other):
        each.load(keep_on_device(trial))
    memory.check_memory_of([arena, other])
    flip(other.buffers["K"].device_bytes, 77)
    with pytest.raises(MemoryFaultError, match="changed its input K"):
        memory.check_memory_of([arena, other])
    other.load(keep_on_device(trial))
    flip(other.buffers["LSE"]._memory, GUARD_BYTES - 1)
    with pytest.raises(
        MemoryFaultError, match="wrote outside LSE: 1 bytes before its start, the last 1 ahead"
    ):
        memory.check_memory_of([arena, other])


def test_copies_of_the_inputs_that_a_kernel_spoilt_are_found(trial, spec, monkeypatch):
    monkeypatch.setattr(memory, "has_room", lambda _: True)  # whatever others have of it
    original = keep_on_device(trial)
    original.verify()
    flip(original.images["V"], original.images["V"].nbytes - 1)
    with pytest.raises(MemoryFaultError, match="own copy of V"):
        original.verify()


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_what_is_read_of_an_output_is_what_reading_all_of_it_gives(spec, dtype):
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64, dtype)
    arena = Arena(workload, rng=np.random.default_rng(1))
    where = reference.sample(workload, np.random.default_rng(1))
    values = np.random.default_rng(2).standard_normal((16 * 1100 * 64), dtype=np.float32)
    arena.buffers["O"].write(encode(values, dtype).view(np.uint8))
    arena.buffers["LSE"].write(values[: 16 * 1100].view(np.uint8))
    settle()
    part = arena.part(where)
    whole = validator.part_of(arena.output(), where, workload=workload)
    assert part.broken == whole.broken == ""
    np.testing.assert_array_equal(part.tensors["O"], whole.tensors["O"])
    np.testing.assert_array_equal(part.tensors["LSE"], whole.tensors["LSE"])


@pytest.mark.parametrize(("dtype", "value"), [("fp16", 0xFC00), ("bf16", 0x7FC1)])
@pytest.mark.parametrize("at", [0, -1])
def test_one_element_that_is_not_finite_is_found(spec, dtype, value, at):
    workload = AttentionWorkload(1, 16, 4, 1100, 1100, 64, dtype)
    arena = Arena(workload, rng=np.random.default_rng(1))
    bits = np.zeros(16 * 1100 * 64, np.uint16)
    bits[at] = value
    arena.buffers["O"].write(bits.view(np.uint8))
    settle()
    part = arena.part(reference.sample(workload, np.random.default_rng(1)))
    assert part.broken.startswith(f"1 of {bits.size} elements, the first at b=0 h={-at * 15}")


def test_bytes_are_compared_to_the_last_of_them(spec):
    size = (1 << 28) + 16
    first, second = (cupy().empty(size, dtype=np.uint8) for _ in range(2))
    for array in (first, second):
        array.data.memset(7, size)
    settle()
    differ(first, second)
    started = time.monotonic()
    assert not differ(first, second)
    print(f"\n{size >> 20} MiB compared in {1e3 * (time.monotonic() - started):.2f} ms")
    flip(second, size - 1)
    assert differ(first, second)
