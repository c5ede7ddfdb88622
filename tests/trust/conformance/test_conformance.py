"""Conformance without a GPU: every case of the table has a kernel, the emulator runs it and NumPy agrees."""

import dataclasses
import json
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tables import data

from evoflash.errors import UsageError
from evoflash.evaluation import Status
from evoflash.isolation import Ending
from evoflash.kernels import gxx
from evoflash.trust.conformance import arithmetic, hopper, snippets, worker
from evoflash.trust.conformance import run as report
from evoflash.trust.conformance.cases import UNWRITTEN, Bound, CaseResult, Label, Trial, primitives
from evoflash.trust.conformance.run import _Progress, _settle, conform
from evoflash.trust.conformance.worker import compare, errors_ulp
from evoflash.views.doctor import describe_conformance

Array = np.ndarray[Any, Any]
# Compiled and run here; the sizes between are much the same, and doctor --conformance runs all.
SAMPLE = ("wgmma_n8", "wgmma_n24", "wgmma_n256", "tma_*", "arithmetic", "snippets_*")
COMPILED = data(__file__, "COMPILED", tuples=True)


def named(arch: str, patterns: tuple[str, ...]) -> list[str]:
    return [name for name in worker.modules(arch) if any(fnmatch(name, pattern) for pattern in patterns)]


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100"])
def test_each_case_of_the_table_that_a_gpu_has_is_run_once(arch):
    labels = Counter(label for module in worker.modules(arch).values() for label in module.labels)
    table = [(entry, case) for entry in primitives() if entry.runs_on(arch) for case in entry.cases()]

    assert labels == Counter(Label.of(*each) for each in table)


def test_no_snippet_is_without_an_entry():
    assert set(snippets.templates()) <= {entry.name for entry in primitives()}


@pytest.mark.slow
@pytest.mark.parametrize("name", named("sm_90a", SAMPLE))
@pytest.mark.sample(2)
def test_the_emulator_reports_nothing_and_numpy_agrees(name):
    module = worker.modules("sm_90a")[name]
    library = gxx.build(module.source, name="conformance")
    labels = []
    for trial in module.make():
        outcomes, lost = worker.run_trial(trial, library, cubin="")
        assert not lost
        assert [outcome for outcome in outcomes if not outcome.ok] == []
        labels += [outcome.label for outcome in outcomes]

    assert tuple(labels) == module.labels


@pytest.mark.parametrize(
    ("arch", "name"), [(arch, name) for arch, patterns in COMPILED for name in named(arch, patterns)]
)
@pytest.mark.sample(2)
def test_the_kernels_compile_for_the_gpu(arch, name):
    pytest.importorskip("cupy", reason="needs CuPy's NVRTC: pip install '.[cuda13]'")

    assert Path(worker.cubin_path(worker.modules(arch)[name], arch)).stat().st_size > 1000


# ---- snippets against NumPy


WORDS = snippets._words()
LANES = np.arange(32)


def results(name: str, **modes: Any) -> dict[str, Array]:
    """What the emulator makes of the entry's case with those modes."""
    (entry,) = (entry for entry in primitives() if entry.name == name)
    (case,) = (case for case in entry.cases() if dict(case.modes) == modes)
    module = snippets._module("one", [snippets.snippet(entry, case)])
    (trial,) = module.make()
    return worker.run_on_emulator(trial, gxx.build(module.source, name="conformance"))


def small(words: Array) -> Array:
    return (words % 9).astype(np.int64) - 4


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_ldmatrix_hands_out_rows_as_the_ptx_isa_says(count, trans):
    found = results("ldmatrix", count=count, trans=trans)["out"][: 32 * count].reshape(32, count)
    rows = WORDS[:128].view(np.uint16).reshape(32, 8)
    for matrix in range(count):
        tile = rows[[(8 * matrix + i) * 5 % 32 for i in range(8)]]
        tile = tile.T if trans else tile
        expected = np.ascontiguousarray(tile).reshape(32, 2).view(np.uint32)[:, 0]
        np.testing.assert_array_equal(found[:, matrix], expected)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", ["", "_trans"])
def test_stmatrix_is_the_inverse(count, trans):
    found = results("stmatrix", count=count, trans=trans)["out"][:128].view(np.uint16).reshape(32, 8)
    expected = WORDS[128:256].view(np.uint16).reshape(32, 8).copy()
    registers = WORDS[: 32 * count].reshape(32, count)
    for matrix in range(count):
        tile = np.ascontiguousarray(registers[:, matrix]).view(np.uint16).reshape(8, 8)
        expected[[(8 * matrix + i) * 5 % 32 for i in range(8)]] = tile.T if trans else tile
    np.testing.assert_array_equal(found, expected)


def pairs(words: Array) -> Array:
    """get_pair's two integers, low half first."""
    return np.stack([small(words), small(words >> 16)], axis=-1)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_mma_multiplies(dtype):
    found = results("mma_m16n8k16", mode=f"{dtype} f32")["out"][:128].view(np.float32).reshape(32, 4)
    group, pair = LANES // 4, LANES % 4
    registers = pairs(WORDS[512 : 512 + 128]).reshape(32, 4, 2)
    a, b, d = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    for register in range(4):
        for half in range(2):
            row, column = group + 8 * (register % 2), 2 * pair + 8 * (register // 2) + half
            a[row, column] = registers[:, register, half]
    for register, words in enumerate((WORDS[1024:1056], WORDS[1088:1120])):
        for half in range(2):
            b[2 * pair + 8 * register + half, group] = pairs(words)[:, half]
    for i in range(4):
        begun = (WORDS[8 * LANES + i] % 2001).astype(np.int64) - 1000
        d[group + 8 * (i // 2), 2 * pair + i % 2] = begun
    d += a @ b
    expected = np.stack([d[group + 8 * (i // 2), 2 * pair + i % 2] for i in range(4)], axis=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["add", "min", "max"])
@pytest.mark.parametrize("type", ["int", "u32"])
def test_redux_reduces_a_warp(kind, type):
    found = results("redux", kind=kind, type=type)["out"][:32]
    values = WORDS[:32].view(np.int32) if type == "int" else WORDS[:32]
    expected = {"add": lambda: WORDS[:32].sum(dtype=np.uint32), "min": values.min, "max": values.max}[kind]()
    assert set(found.tolist()) == {int(np.array(expected).astype(np.uint32))}


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("distance", [0, 1, 5, 16, 31])
def test_shuffles_keep_what_comes_from_outside(direction, distance):
    found = results("shfl", direction=direction, type="u32", distance=distance)["out"][:32]
    other = LANES - distance if direction == "up" else LANES + distance
    expected = WORDS[np.where((other >= 0) & (other < 32), other, LANES)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("phases", [0, 1, 2])
@pytest.mark.parametrize("parity", [0, 1])
@pytest.mark.parametrize("name", ["mbar_test_wait", "mbar_try_wait"])
def test_a_wait_asks_for_the_phase_before_the_current_one(name, phases, parity):
    found = results(name, phases=phases, parity=parity)["out"]
    assert found[0] == (phases % 2 != parity)
    assert set(found[1:]) == {UNWRITTEN}


def test_atomics_return_the_old_value_and_leave_the_sum():
    found = results("atom_add", type="int")
    first, second, third = (WORDS[64 * i : 64 * (i + 1)] for i in range(3))
    np.testing.assert_array_equal(found["out"][:128].reshape(64, 2), np.stack([first, first + second], 1))
    np.testing.assert_array_equal(found["workspace"][:64], first + second + third)
    assert found["workspace"][128] == WORDS[0] + WORDS[192:256].sum(dtype=np.uint32)


# ---- the judge


def trial(expected: Array, **more: Any) -> Trial:
    label = Label("x", "x")
    results = {"out": np.zeros_like(expected)}
    return Trial((label,), (), (), {}, results, expected={"out": expected}, **more)


def test_one_wrong_bit_is_found_on_either_side():
    right = np.arange(8, dtype=np.uint32)
    wrong = right ^ np.array([0, 0, 0, 4, 0, 0, 0, 0], np.uint32)
    for emulated_, gpu in ((right, wrong), (wrong, right), (wrong, wrong)):
        (outcome,) = compare(trial(right), emulated={"out": emulated_}, gpu={"out": gpu})
        assert not outcome.ok
        assert "out: 1 of 8 words differ, the first [3]" in outcome.detail
    assert compare(trial(right), emulated={"out": right}, gpu={"out": right})[0].ok


def test_what_numpy_says_nothing_of_is_compared_as_well():
    right = np.arange(8, dtype=np.uint32)
    silent = dataclasses.replace(trial(right), expected={})

    assert not compare(silent, emulated={"out": right}, gpu={"out": right + 1})[0].ok
    assert compare(silent, emulated={"out": right}, gpu=None)[0].ok


def test_a_difference_is_blamed_on_the_case_that_it_lies_in():
    right = np.zeros((3, 4), np.uint32)
    wrong = right.copy()
    wrong[1, 2] = 7
    labels = tuple(Label("x", str(i)) for i in range(3))
    several = dataclasses.replace(trial(right), cases=labels)

    assert [each.ok for each in compare(several, emulated={"out": right}, gpu={"out": wrong})] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [("f32", 0x7FC00000, 0xFFFFFFFF), ("f16", 0x7E003C00, 0xFE013C00), ("bf16", 0x3F807FC0, 0x3F80FFC1)],
)
def test_of_floats_all_nans_are_one(kind, first, second):
    one, other = (np.array([x], np.uint32) for x in (first, second))

    assert compare(trial(one, kind=kind), emulated={"out": one}, gpu={"out": other})[0].ok
    assert not compare(trial(one), emulated={"out": one}, gpu={"out": other})[0].ok


def errors(found: float, exact: float, *, at: float = 3.0, flat: Any = None) -> float:
    bound = Bound(np.exp2, 2, flat)
    values = np.array([found], np.float32), np.array([exact]), np.array([at], np.float32)
    return float(errors_ulp(*values, bound)[0])


def test_errors_are_counted_in_the_last_place_of_a_float():
    assert errors(1 + 2.0**-22, 1.0) == 2.0
    assert errors(0.75 + 2.0**-23, 0.75) == 2.0
    assert errors(2.0**-127, 2.0**-127) == np.inf  # .ftz flushes it
    assert errors(0.0, 2.0**-127) == 0.0
    assert errors(0.0, 2.0**-100) > 1e6
    assert errors(-0.0, 2.0**-130) == np.inf
    assert errors(np.inf, 1e38) == np.inf
    assert errors(np.inf, 1e39) == 0.0
    assert errors(np.nan, np.nan) == 0.0
    assert errors(1.0, np.nan) == np.inf


def test_ulps_are_counted_from_the_correctly_rounded_result():
    """What an H200 gave for ex2(-113.07816), 2.011 ulp from the exact value."""
    found, exact = np.array([0x06F27FD1], np.uint32).view(np.float32)[0], 9.121810339906233e-35
    assert errors(found, exact) == 2.0
    assert errors(np.nextafter(found, np.float32(1)), exact) in (1.0, 3.0)


def test_errors_of_logarithms_are_absolute_about_one_and_relative_elsewhere():
    near_one, above = {"at": 1.5, "flat": (0.5, 2.0)}, {"at": 2.0, "flat": (0.5, 2.0)}
    assert errors(2.0**-22, 0.0, **near_one) == 2.0
    assert errors(0.25 + 2.0**-22, 0.25, **near_one) == 2.0
    assert errors(64 + 2.0**-16, 64.0, **above) == 2.0
    assert errors(-1.5 - 3 * 2.0**-23, -1.5, **above) == 2.0
    assert errors(0.0, 64.0, **above) == 2.0**23


def test_an_approximation_outside_its_bound_is_told_with_its_input():
    values = np.array([1.0, 2.0], np.float32)
    exact = np.array([2.0, 4.0], np.float32).view(np.uint32)
    approximate = Trial(
        cases=(Label("ex2", "ex2"),),
        launches=(),
        arguments=(),
        inputs={"a": values.view(np.uint32)},
        results={"out": np.zeros(2, np.uint32)},
        bound=Bound(np.exp2, 2),
    )
    (fine,) = compare(approximate, emulated={"out": exact}, gpu={"out": exact + np.uint32([1, 2])})
    (bad,) = compare(approximate, emulated={"out": exact}, gpu={"out": exact + np.uint32([1, 3])})

    assert (fine.ok, fine.ulp) == (True, {"emulator": 0.0, "gpu": 2.0})
    assert not bad.ok
    assert bad.detail.startswith("gpu: 3.000 ulp at input")


def test_inputs_of_approximations_cover_every_exponent_and_what_ftz_changes():
    for name in ("ex2", "lg2", "rcp"):
        values = arithmetic.spread(name).view(np.float32)
        _, exponents = np.frexp(values[np.isfinite(values) & (values != 0)])
        assert set(range(-125, 129)) <= set(exponents.tolist())
        assert len(values) % (arithmetic.THREADS * arithmetic.A_THREAD) == 0
        assert {0.0, 2.0**-149, np.inf} <= set(values[:64].tolist())


# ---- boxes


def test_a_box_over_the_edge_holds_zeros_there_and_the_swizzle_moves_whole_chunks():
    tensor = hopper.box_map(2, 128, "f16")
    offsets, places = hopper.walk(tensor, hopper.place(tensor, "edge"), 1024)
    box = hopper.box_bytes(tensor)

    assert sorted(places) == list(range(box))
    assert (places // 16 * 16 + np.arange(box) % 16 == places).all()
    assert places[128] == 128 + 16  # row 1: chunk 0 changes places with chunk 1
    assert 0 < (offsets < 0).sum() < box
    assert (hopper.walk(tensor, hopper.place(tensor, "inside"), 1024)[0] >= 0).all()
    assert (hopper.walk(tensor, hopper.place(tensor, "outside"), 1024)[0] < 0).all()


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "float"])
def test_boxes_begin_where_a_gpu_lets_them_and_lie_where_they_say(rank, swizzle, dtype):
    tensor = hopper.box_map(rank, swizzle, dtype)
    inside = {}
    for where in ("inside", "edge", "outside", "before"):
        first, *_ = hopper.place(tensor, where)
        assert first * tensor.element_bytes % 16 == 0
        inside[where] = (hopper.walk(tensor, hopper.place(tensor, where), 1024)[0] >= 0).mean()

    assert (inside["inside"], inside["outside"]) == (1, 0)
    assert 0 < inside["edge"] < 1
    assert 0 < inside["before"] < 1
    assert min(hopper.place(tensor, "before")) < 0


# ---- crashes


def progress(folder: Path, *lines: object) -> _Progress:
    labels = tuple(Label("x", str(i)) for i in range(3))
    mine = _Progress(labels, folder / "journal.jsonl")
    mine.journal.write_text(
        "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    )
    return mine


def begin(number: int) -> dict[str, Any]:
    return {"begin": number, "labels": [{"primitive": "x", "case": str(number)}]}


def done(number: int) -> dict[str, Any]:
    return {"outcomes": [dataclasses.asdict(CaseResult(Label("x", str(number)), True))]}


def test_a_trial_that_its_process_died_of_is_written_off_and_the_next_goes_on(tmp_path):
    mine = progress(tmp_path, begin(0), done(0), begin(1), '{"outco')
    over = _settle(mine, Ending(None, Status.RUNTIME, "the process died of signal 11"))

    assert not over
    assert mine.next == 2
    assert [(each.label.case, each.ok) for each in mine.outcomes] == [("0", True), ("1", False)]
    assert mine.outcomes[1].detail == "the process died of signal 11"


def test_what_is_never_reached_has_failed(tmp_path):
    mine = progress(tmp_path)
    over = _settle(mine, Ending(None, Status.TIMEOUT, "no answer within 180 s"))

    assert over
    assert [each.ok for each in mine.all()] == [False, False, False]
    assert "no answer within 180 s" in mine.all()[0].detail


def crashed(number: int) -> dict[str, Any]:
    return {
        "outcomes": [dataclasses.asdict(CaseResult(Label("x", str(number)), False, "trap", end="crashed"))]
    }


def test_a_primitive_that_crashed_three_times_is_not_run_again(tmp_path):
    lines = [line for number in range(3) for line in (begin(number), crashed(number))]
    mine = progress(tmp_path, *lines[:4])
    mine.labels = (*mine.labels, Label("x", "3"), Label("y", "0"))
    assert not _settle(mine, Ending(None, Status.RUNTIME, "code 1"))
    assert mine.abandoned_primitives == frozenset()
    with mine.journal.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines[4:])
    _settle(mine, Ending(None, Status.RUNTIME, "code 1"))

    assert mine.abandoned_primitives == {"x"}
    ends = [(each.label.primitive, each.end) for each in mine.all()]
    assert ends == [*[("x", "crashed")] * 3, ("x", "not run"), ("y", "not run")]
    assert mine.all()[3].detail == "not run: 3 kernels of x had crashed before it"
    assert mine.line("tma_1").startswith("tma_1: 5 cases, 3 crashed, 2 not run, ")


def test_what_is_left_out_is_neither_run_nor_noted(tmp_path):
    journal = tmp_path / "journal.jsonl"
    kept = {"neg_inf", "fmax"}
    without = {label.primitive for label in worker.modules("sm_80")["arithmetic"].labels} - kept
    worker.run_module("arithmetic", "sm_80", journal, first=0, on_gpu=False, without=without)
    lines = list(worker.read_journal(journal))

    assert {label["primitive"] for line in lines for label in line.get("labels", ())} == kept
    assert "finished" in lines[-1]


def test_after_its_time_limit_a_sweep_tells_what_it_has():
    swept = conform("sm_90a", on_gpu=False, only=("wgmma_n2",), time_limit_s=2.0)

    assert swept.stopped == "after its time limit of 2 s"
    assert len(swept.outcomes) == 9 * 320  # N = 24 and 200 to 256
    left = [each for each in swept.outcomes if not each.ok]
    assert {(each.end, each.detail) for each in left} == {
        ("not run", "was not reached: the run was stopped after its time limit of 2 s")
    }


def test_texts_are_chosen_by_how_their_names_begin():
    swept = conform("sm_90a", on_gpu=False, only=("snippets_sm_90_2",))

    assert swept.stopped == ""
    assert [each for each in swept.outcomes if not each.ok] == []
    assert tuple(each.label for each in swept.outcomes) == worker.modules("sm_90a")["snippets_sm_90_2"].labels
    with pytest.raises(UsageError, match="no text of kernels begins with wgma: choose from wgmma_n256,"):
        conform("sm_90a", on_gpu=False, only=("wgma",))


CRASHING = data(__file__, "CRASHING")


@pytest.mark.full
def test_a_journal_survives_its_process(tmp_path):
    mine = _Progress(worker.modules("sm_80")["arithmetic"].labels, tmp_path / "journal.jsonl")
    while True:
        command = [sys.executable, "-c", CRASHING, str(mine.journal), str(mine.next)]
        code = subprocess.run(command, check=False).returncode
        if _settle(mine, Ending(None, Status.RUNTIME, f"code {code}")):
            break

    failed = [each.label.case for each in mine.all() if not each.ok]
    assert failed == ["pack2 dtype=bf16"]
    assert tuple(each.label for each in mine.all()) == mine.labels
    assert {each.detail for each in mine.all() if not each.ok} == {"code -11"}


# ---- the report


def found(*outcomes: CaseResult) -> report.Conformance:
    return report.Conformance("NVIDIA X", "sm_89", "", 1.0, report.summaries(outcomes, "sm_89"))


def test_a_report_names_what_differs_and_what_was_left_out():
    equal, differing = (
        CaseResult(Label("fma", "fma"), True),
        CaseResult(Label("fmax", "fmax"), False, "out: 1 word"),
    )
    text = describe_conformance(found(equal, differing))

    assert "ok       fma" in text
    assert "differs  fmax" in text
    assert "fmax: out: 1 word" in text
    assert "needs sm_90a" in next(line for line in text.splitlines() if " wgmma_ss " in line)
    assert text.splitlines()[-1].startswith("1 of 2 cases are equal in the emulator and on NVIDIA X (sm_89)")


def test_a_report_tells_what_did_not_run_apart_from_what_differs():
    outcomes = (
        CaseResult(Label("fma", "fma"), True),
        CaseResult(Label("fmax", "fmax"), False, "was not reached: it", end="not run"),
        CaseResult(Label("mul", "mul"), False, "the GPU: illegal instruction", end="crashed"),
    )
    stopped = dataclasses.replace(found(*outcomes), stopped="by Ctrl-C")
    text = describe_conformance(stopped)

    assert "not run  fmax                           0 of 1 equal, 1 not run" in text
    assert "was not reached" not in text
    assert "mul: the GPU: illegal instruction" in text
    assert "skipped  sub                            not chosen" in text
    assert text.splitlines()[-2] == "stopped by Ctrl-C: not all cases have run"
    data = json.loads(json.dumps(stopped.as_dict()))
    assert (data["cases"], data["equal"], data["crashed"], data["not_run"]) == (3, 1, 1, 1)


def test_the_json_holds_every_difference_and_the_errors_measured():
    outcome = CaseResult(Label("ex2", "ex2"), False, "gpu: 3 ulp", {"gpu": 3.0, "emulator": 0.5})
    data = json.loads(json.dumps(found(outcome).as_dict()))

    assert (data["cases"], data["equal"], data["gpu"]) == (1, 0, "NVIDIA X")
    (ex2,) = (entry for entry in data["primitives"] if entry["primitive"] == "ex2")
    assert ex2["worst_ulp"] == {"gpu": 3.0, "emulator": 0.5}
    assert ex2["failures"] == [{"case": "ex2", "detail": "gpu: 3 ulp"}]
