"""The dispatcher's rule: each shape gets the kernel that is fastest for it, borders are where it changes."""

from hypothesis import given
from hypothesis import strategies as st
from tables import table_of_cases

from evoflash.app.portfolio import choice as rule
from evoflash.problem import parse_workload
from evoflash.runtime.dispatch import FALLBACK, Dispatcher

ARCH = "sm_89"
POINTS = {
    parse_workload("b=1,h=8,s=128,d=64"): 0,
    parse_workload("b=1,h=8,s=1024,d=64"): 1,
    parse_workload("b=8,h=8,s=1024,d=64"): 1,
    parse_workload("b=4,h=8,sq=1,skv=4096,d=64"): 2,
    parse_workload("b=1,h=8,s=1024,d=64,causal"): 0,
}


@st.composite
def mixes(draw):
    sizes = st.sampled_from([1, 100, 128, 300, 1000, 4096])
    shape = st.builds(
        lambda b, sq, skv: parse_workload(f"b={b},h=8,sq={sq},skv={skv},d=64"),
        st.integers(1, 9),
        sizes,
        sizes,
    )
    return draw(st.dictionaries(shape, st.integers(0, 3), min_size=1, max_size=8))


def given_to(points, workload):
    return rule.ask_dispatcher(Dispatcher(rule.rule_of(points, ARCH)), workload, ARCH)


def test_every_shape_of_the_mix_gets_its_own_kernel():
    assert [given_to(POINTS, workload) for workload in POINTS] == list(POINTS.values())


@given(mixes())
def test_a_shape_alone_in_its_bucket_gets_its_own_kernel(points):
    buckets = [rule.bucket(workload, ARCH) for workload in points]

    for workload, number in points.items():
        if buckets.count(rule.bucket(workload, ARCH)) == 1:
            assert given_to(points, workload) == number


def test_a_shape_between_two_gets_the_kernel_of_the_nearer():
    assert given_to(POINTS, parse_workload("b=1,h=8,s=200,d=64")) == 0
    assert given_to(POINTS, parse_workload("b=1,h=8,s=700,d=64")) == 1


@table_of_cases()
def test_what_nothing_like_was_timed_falls_back(outside):
    assert given_to(POINTS, parse_workload(outside)) == FALLBACK


@given(mixes())
def test_both_sides_of_a_border_get_different_kernels(points):
    for border in rule.borders(points, ARCH):
        assert border.kernels[0] != border.kernels[1]
        assert (given_to(points, border.first), given_to(points, border.second)) == border.kernels


@given(mixes())
def test_a_border_lies_between_shapes_that_hardly_differ(points):
    for border in rule.borders(points, ARCH):
        sides = zip(rule.place(border.first), rule.place(border.second), strict=True)
        assert max(abs(a - b) for a, b in sides) <= 1.0  # a whole octave: from batch 1 to 2


def test_neighbours_with_one_kernel_have_no_border():
    points = {workload: 0 for workload in POINTS if not workload.causal and workload.seq_q > 1}

    assert len(points) > 2
    assert rule.borders(points, ARCH) == ()


def test_two_neighbours_with_different_kernels_have_a_border():
    assert rule.borders(POINTS, ARCH)
