"""A portfolio of the linear layer: a range of rows is many shapes, a class of rows gets one kernel."""

import json

import pytest
from portfolio_cases import time_of
from tables import table_of_cases

from evoflash.app.portfolio import choice as rule
from evoflash.app.portfolio.candidates import CandidateKernel, _in_turns, candidates
from evoflash.app.portfolio.run import PortfolioOptions, export, portfolio
from evoflash.app.portfolio.table import ShapeTimes, TimeTable, write_table
from evoflash.app.shape_files import read_mix
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.operation import operation_of
from evoflash.operations.linear.workload import ROW_CLASSES
from evoflash.problem import parse_problem, parse_workload
from evoflash.runtime.dispatch import FALLBACK, Dispatcher
from evoflash.runtime.packaged import read_package
from evoflash.space import Genome
from evoflash.specs import load_gpu

ARCH = "sm_90a"


def mix(folder, text):
    path = folder / "mix.txt"
    path.write_text(text)
    return path


def test_a_range_stands_for_a_shape_for_each_number(tmp_path):
    found = read_mix(mix(tmp_path, "linear:8b_o,m=1..64,dtype=fp8b128\nlinear:8b_qkv,m=3 weight=6\n"))

    assert [shape.workload.m for shape in found] == [*range(1, 65), 3]
    assert found[0].weight == pytest.approx(1 / 70)
    assert sum(shape.weight for shape in found) == pytest.approx(1)


def test_two_ranges_stand_for_all_pairs(tmp_path):
    found = read_mix(mix(tmp_path, "b=1..3,h=8,sq=1,skv=64..65,d=64"))

    assert len({(shape.workload.batch, shape.workload.seq_kv) for shape in found}) == 6


@table_of_cases()
def test_a_range_or_a_mix_that_is_none_is_refused(text, complaint, tmp_path):
    with pytest.raises(UsageError, match=complaint) as refused:
        read_mix(mix(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_every_number_of_rows_gets_the_kernel_that_it_was_timed_with():
    points = {parse_workload(f"linear:m={m},n=4096,k=4096,dtype=fp8b128"): m % 3 for m in range(1, 65)}
    dispatcher = Dispatcher(rule.rule_of(points, ARCH))

    assert {each: rule.ask_dispatcher(dispatcher, each, ARCH) for each in points} == points


def test_candidates_come_from_each_class_of_rows_and_first_from_problems_that_were_searched(tmp_path):
    spec, sources = load_gpu("h100"), []
    shapes = [shape.workload for shape in read_mix(mix(tmp_path, "linear:8b_o,m=1..64,dtype=fp8b128"))]
    for m in (24, 48):
        problem = parse_problem(f"linear:8b_o,m={m},dtype=fp8b128")
        sources.append(CandidateKernel(problem, Genome("linear_mma", 1, (("stages", m),))))

    turns = [each.m for each in _in_turns(shapes, sources, spec)]

    assert sorted(turns) == list(range(1, 65))
    first = turns[: len(ROW_CLASSES)]
    assert {1, 2, 24, 48} <= set(first)
    assert {next(c for c in ROW_CLASSES if m <= c) for m in first} == set(ROW_CLASSES)


@table_of_cases()
def test_what_nothing_like_was_timed_falls_back(outside):
    points = {parse_workload("linear:m=4,n=4096,k=4096,dtype=fp8b128"): 0}
    dispatcher = Dispatcher(rule.rule_of(points, ARCH))

    assert rule.ask_dispatcher(dispatcher, parse_workload(outside), ARCH) == FALLBACK


def test_a_shape_between_two_is_a_shape_of_the_operation():
    first, second = (parse_workload(f"linear:{text}") for text in ("m=1,n=576,k=144", "m=1,n=8192,k=7168"))
    form = operation_of(first).portfolio

    assert form.between(first, second, 0.0) == first
    assert form.between(first, second, 1.0) == second
    assert all(form.between(first, second, part / 50).k % 16 == 0 for part in range(51))


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """From a table of made-up times: of two kernels the first is faster for few rows."""
    folder, spec = tmp_path_factory.mktemp("linear"), load_gpu("h100")
    path = mix(folder, "linear:n=256,k=256,m=1..2,dtype=fp8b128\nlinear:n=256,k=256,m=16,dtype=fp8b128\n")
    workloads = [shape.workload for shape in read_mix(path)]
    kernels = candidates(workloads[-1:], spec, db=str(folder / "none.db"), most=2)
    times = ((1.0, 2.0), (1.0, 2.0), (2.0, 1.0))
    rows = [
        ShapeTimes(workload, {each.id: time_of(us) for each, us in zip(kernels, row, strict=True)})
        for workload, row in zip(workloads, times, strict=True)
    ]
    write_table(folder / "t.json", TimeTable("h100", Basis.ESTIMATED, kernels, tuple(rows)))
    asked = {"gpu": None, "evaluator": None, "minutes": 1.0, "candidates": 2, "seed": 0, "db": ""}
    found = portfolio(PortfolioOptions(path, 2, table=folder / "t.json", **asked))
    export(found, folder / "fast_linear")
    return found, folder / "fast_linear"


def test_the_package_names_a_kernel_for_each_number_of_rows(chosen):
    found, folder = chosen
    description, kernels = read_package(folder)
    dispatcher = Dispatcher(description["rule"])

    for shape in found.mix:
        number = rule.ask_dispatcher(dispatcher, shape.workload, found.spec.arch)
        assert kernels[number].contract.most_rows >= shape.workload.m
        assert kernels[number].contract.weights == "fp8b128"
    folders = [member["folder"].partition("-")[2] for member in description["members"]]
    assert folders == ["fp8b128-m1", "fp8b128-m2", "fp8b128-m16"]
    assert (folder / "linear_portfolio.py").is_file()
    assert not (folder / "torch_op.py").exists()


def test_a_folder_for_flashinfer_has_a_kernel_for_each_class_of_rows(chosen, tmp_path):
    found, _ = chosen
    export(found, tmp_path / "trace", "flashinfer-trace")

    (solution,) = (tmp_path / "trace" / "solutions").iterdir()
    assert solution.name == "fp8_blockscale_gemm_sm90_n256_k256.json"
    (source,) = json.loads(solution.read_text())["sources"]
    keys = {row.workload.compile_key(ARCH) for row in found.mix}
    assert source["content"].count("KERNELS.append(") == len(keys)


def test_an_unknown_form_of_a_portfolio_is_refused(chosen, tmp_path):
    with pytest.raises(UsageError, match="one of package, flashinfer-trace"):
        export(chosen[0], tmp_path / "x", "hub")
