"""`evoflash portfolio` from tables: what is chosen, reported and asked for again; one run of estimates."""

import json
import re
from dataclasses import replace

import forked
import pytest
from portfolio_cases import SHAPES, chosen_from, kernels, table_of, time_of
from rich.console import Console

from evoflash.app.portfolio import choice as rule
from evoflash.app.portfolio.candidates import build_all, candidates, valid_keys
from evoflash.app.portfolio.run import at_borders, joint_problems, regret, serve_mix
from evoflash.app.portfolio.session import complaint, emulated_part
from evoflash.app.portfolio.table import ShapeTimes, read_table
from evoflash.errors import DeviceError, NoKernelError, UsageError
from evoflash.evaluation import Basis
from evoflash.problem import parse_problem, parse_workload
from evoflash.specs import load_gpu
from evoflash.views import portfolio as report

TIMES = [[10.0, 20.0, 12.0], [40.0, 20.0, 30.0], [9.0, 5.0, 5.5]]


def shown(found, width=80):
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as capture:
        report.print_text(found, console)
    return capture.get()


def test_each_shape_is_served_by_the_fastest_of_the_kept_kernels(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path, kernels=2)

    assert found.kernels == tuple(genome.id for genome in kernels(3)[:2])
    assert [row.kernel for row in serve_mix(found)] == [found.kernels[0], found.kernels[1], found.kernels[1]]


def test_the_regret_is_beside_the_fastest_of_all_kernels_and_not_of_the_kept_ones(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path, kernels=1)

    costs = regret(serve_mix(found))

    assert found.kernels == (kernels(3)[2].id,)
    assert costs.worst == pytest.approx(0.5)
    assert costs.mean == pytest.approx((0.2 + 0.5 + 0.1) / 3)


def test_regrets_of_estimates_carry_their_mark_and_the_models_error(tmp_path):
    table = replace(table_of(TIMES), basis=Basis.ESTIMATED)

    text = shown(chosen_from(table, tmp_path, kernels=1), width=200)

    assert "mean ~26.67% by weight" in text
    assert {"20.0%", "50.0%", "10.0%", "26.67%", "50.00%"} <= set(re.findall(r"~([\d.]+%)", text))
    assert set(re.findall(r"[ (](\d+\.\d+%)", text)) == {"33.3%"}  # the weights
    assert "nine of ten took" in text


def test_choosing_again_with_other_weights_needs_no_gpu(tmp_path):
    table = table_of(TIMES)

    assert chosen_from(table, tmp_path, kernels=1, weights=[8, 1, 1]).kernels == (kernels(1)[0].id,)
    assert chosen_from(table, tmp_path, kernels=1, weights=[1, 8, 1]).kernels == (kernels(2)[1].id,)


def test_a_shape_that_no_kernel_computes_falls_back_and_says_why(tmp_path):
    found = chosen_from(table_of([[10.0], [None], [5.0]]), tmp_path)

    rows = serve_mix(found)

    assert [bool(row.kernel) for row in rows] == [True, False, True]
    text = " ".join(shown(found).split())
    assert f"{parse_workload(SHAPES[1])} falls back to PyTorch's attention: not valid for this" in text


def test_where_no_kernel_computes_anything_that_is_the_error(tmp_path):
    with pytest.raises(NoKernelError, match="not valid for this head dimension"):
        chosen_from(table_of([[None], [None], [None]]), tmp_path)


def test_a_measured_table_without_a_shape_asks_for_its_gpu(tmp_path):
    table = table_of(TIMES[:2], shapes=SHAPES[:2])

    with pytest.raises(DeviceError, match="has no times for b=4,h=8"):
        chosen_from(table, tmp_path)


def test_borders_that_nobody_timed_are_said_to_be_so(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path, kernels=2)

    assert at_borders(found)
    assert "shapes beside one are not timed: run this on a l4" in " ".join(shown(found).split())


def beside(found):
    """The shapes on both sides of its first border."""
    return found.borders[0].first, found.borders[0].second


def served_at(shapes, found):
    """Of each shape the number of the kernel that the rule names."""
    return [rule.ask_dispatcher(rule.Dispatcher(found.rule), shape, "sm_89") for shape in shapes]


def test_a_border_whose_kernel_is_slower_than_another_teaches_the_rule(tmp_path):
    table = table_of(TIMES)
    before = chosen_from(table, tmp_path, kernels=2)
    first, second = before.kernels
    for shape in beside(before):  # the second kernel is twice as fast on both sides
        table = table.with_border(ShapeTimes(shape, {first: time_of(20.0), second: time_of(10.0)}))

    after = chosen_from(table, tmp_path, kernels=2)

    assert served_at(beside(before), after) == [1, 1]
    assert [row.kernel for row in serve_mix(after)] == [row.kernel for row in serve_mix(before)]


def test_the_report_fits_80_columns(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path, kernels=2)

    lines = shown(found).splitlines()

    assert max(map(len, lines)) <= 80
    assert not any("leave no room" in line for line in lines)


def test_estimates_are_marked_in_every_time(tmp_path):
    found = chosen_from(table_of([[10.0], [40.0], [9.0]], basis=Basis.ESTIMATED), tmp_path)

    assert "ESTIMATED by a model, not measured" in shown(found)
    assert "~10.00" in shown(found)


def test_a_note_says_where_pytorch_is_faster(tmp_path):
    found = chosen_from(table_of([[100.0], [40.0], [60.0]]), tmp_path)

    assert "PyTorch's attention is faster on 2 of the shapes" in shown(found)


def test_json_has_the_rule_and_every_figure_of_the_text(tmp_path):
    found = chosen_from(table_of(TIMES), tmp_path, kernels=2)

    told = json.loads(json.dumps(found.as_dict()))

    assert told["rule"] == json.loads(json.dumps(found.rule))
    assert [shape["problem"] for shape in told["shapes"]] == [str(parse_workload(each)) for each in SHAPES]
    assert told["mean_regret"] == regret(serve_mix(found)).mean
    assert [each["kernels"] for each in told["by_count"]] == [1, 2]


def test_candidates_are_valid_for_one_of_the_shapes_at_least_and_none_comes_twice():
    gpu, shapes = load_gpu("h200"), [parse_workload("s2k_d64,dtype=bf16"), parse_workload("decode8k")]
    keys = [shape.compile_key(gpu.arch) for shape in shapes]

    found = candidates(shapes, gpu, db="none.db", most=12)

    assert len(found) == len({genome.id for genome in found}) == 12
    assert all(valid_keys(genome, keys, gpu) for genome in found)


def test_a_table_of_another_gpu_is_refused(tmp_path):
    chosen_from(table_of(TIMES), tmp_path)
    words = [
        "--problems",
        str(tmp_path / "mix.txt"),
        "--table",
        str(tmp_path / "table.json"),
        "--gpu",
        "h200",
    ]

    done = evoflash(*words)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "is of l4, not of h200" in done.stderr


def evoflash(*words):
    return forked.evoflash("portfolio", *words)


@pytest.mark.full
def test_without_a_gpu_times_are_estimated_kept_and_read_again(tmp_path):
    mix = tmp_path / "mix.txt"
    mix.write_text("b=1,h=4,s=64,d=32 weight=2\nb=2,h=4,s=256,d=32\n")
    words = ["--problems", str(mix), "--gpu", "l4", "--kernels", "2", "--candidates", "2", "--db", "none.db"]

    first = evoflash(*words, "--json")
    table = tmp_path / "mix.l4.estimated.json"
    kept = table.read_bytes()
    again = evoflash(*words[:2], "--table", str(table), "--kernels", "1", "--json", "--db", "none.db")

    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    assert json.loads(first.stdout)["basis"] == "estimated"
    assert len(read_table(table).rows) == 2
    assert table.read_bytes() == kept  # choosing again wrote nothing and emulated nothing
    assert len(json.loads(again.stdout)["kernels"]) == 1


def test_what_a_kept_kernel_is_slow_on_is_searched_together_the_worst_of_each_compile_key(tmp_path):
    shapes = ("b=1,h=8,s=128,d=64", "b=1,h=8,s=1024,d=64", "b=4,h=8,s=128,d=128", "b=1,h=8,s=512,d=128")
    table = table_of([[1.0, 2.0], [1.2, 1.0], [1.03, 1.0], [1.05, 1.0]], shapes)
    one, two = (chosen_from(table, tmp_path, kernels=count, shapes=shapes) for count in (1, 2))

    assert joint_problems(one, 4) == [parse_problem(f"{shapes[1]}+{shapes[3]}")]
    assert joint_problems(one, 0) == joint_problems(two, 4) == []


@pytest.mark.full
def test_kernels_are_searched_for_and_timed_on_every_shape(tmp_path):
    mix = tmp_path / "mix.txt"
    mix.write_text("linear:m=1,n=256,k=512,dtype=fp8b128\nlinear:m=12,n=256,k=512,dtype=fp8b128\n")
    words = ["--problems", str(mix), "--gpu", "h100", "--candidates", "3", "--db", str(tmp_path / "a.db")]

    answer = evoflash(*words, "--kernels", "1", "--searches", "1", "--json")

    assert answer.returncode == 0, answer.stderr
    table = read_table(tmp_path / "mix.h100.estimated.json")
    assert "searching for a kernel that is fast on all of linear:" in answer.stderr
    assert len(table.kernels) == 4
    assert all(table.kernels[3].id in {*row.times, *row.absent} for row in table.rows)


def test_a_database_that_is_not_there_leaves_the_archive(tmp_path):
    gpu, shapes = load_gpu("h200"), [parse_workload("mission")]

    assert candidates(shapes, gpu, db=str(tmp_path / "none.db"), most=3)


def test_no_family_for_a_shape_is_one_line(monkeypatch):
    from evoflash.app.portfolio import candidates as module

    monkeypatch.setattr(module, "families_for", lambda *_: ())
    with pytest.raises(UsageError, match="no family has a kernel"):
        candidates([parse_workload("mission")], load_gpu("l4"), db="none.db", most=3)


def test_a_kernel_that_was_wrong_at_a_border_is_not_kept(tmp_path):
    table = table_of(TIMES)
    before = chosen_from(table, tmp_path, kernels=2)
    first, second = before.kernels
    shape = before.borders[0].first
    table = table.with_border(
        ShapeTimes(shape, {second: time_of(9.0)}, {first: "wrong: row 3 is 1.0, 2.0 is right"})
    )

    after = chosen_from(table, tmp_path, kernels=2)

    assert first not in after.kernels
    assert len(after.kernels) == 2
    assert "row 3 is 1.0" in after.table.rows[0].absent[first]


def test_a_kernel_that_cannot_be_launched_at_a_border_is_kept_elsewhere(tmp_path):
    table = table_of(TIMES)
    before = chosen_from(table, tmp_path, kernels=2)
    first, second = before.kernels
    for shape in beside(before):
        refused = {first: "its blocks do not all fit"}
        table = table.with_border(ShapeTimes(shape, {second: time_of(9.0)}, refused))

    after = chosen_from(table, tmp_path, kernels=2)

    assert after.kernels == before.kernels
    assert served_at(beside(before), after) == [1, 1]


def test_the_emulator_takes_emulated_part_of_a_border_shape_and_no_more_than_it_can():
    gpu, shape = load_gpu("l4"), parse_workload("b=3,h=2,hkv=1,s=70,d=32")
    (part,) = build_all(kernels(1), [shape], gpu, emulate=False).values()
    alone = emulated_part(shape)

    assert (alone.batch, alone.heads, alone.kv_heads) == (1, 2, 1)
    assert complaint(part, alone, gpu, 0) == ""
    assert emulated_part(parse_workload("s8k_d128")) is None
