"""A portfolio of the linear layer: a range of rows is many shapes, a class of rows gets one kernel."""

import pytest
from tables import table_of_cases

from evoflash.app.mix import read_mix
from evoflash.app.portfolio import choice as rule
from evoflash.app.portfolio.run import PortfolioOptions, export, portfolio
from evoflash.errors import UsageError
from evoflash.operation import operation_of
from evoflash.problem import parse_workload
from evoflash.runtime.dispatch import FALLBACK, Dispatcher
from evoflash.runtime.packaged import read_package

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


def test_every_number_of_rows_gets_the_kernel_of_its_class():
    points = {parse_workload(f"linear:m={m},n=4096,k=4096,dtype=fp8b128"): m % 3 for m in range(1, 65)}
    dispatcher = Dispatcher(rule.rule_of(points, ARCH))

    for workload, kernel in points.items():
        alone = [each for each in points if rule.bucket(each, ARCH) == rule.bucket(workload, ARCH)] == [
            workload
        ]
        given = rule.ask_dispatcher(dispatcher, workload, ARCH)
        assert given == kernel if alone else given != FALLBACK


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
    """From estimates, for the shapes of one kernel of each of three classes."""
    folder = tmp_path_factory.mktemp("linear")
    path = mix(folder, "linear:n=256,k=256,m=1..2,dtype=fp8b128\nlinear:n=256,k=256,m=16,dtype=fp8b128\n")
    wanted = PortfolioOptions(
        path,
        2,
        gpu="h100",
        evaluator="emulated",
        minutes=1.0,
        candidates=2,
        table=None,
        seed=0,
        db=str(folder / "none.db"),
    )
    found = portfolio(wanted)
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
    assert len({member["kernel"] for member in description["members"]}) <= 2
    assert (folder / "linear_portfolio.py").is_file()
    assert not (folder / "torch_op.py").exists()
