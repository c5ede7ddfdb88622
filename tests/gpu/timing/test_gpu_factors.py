"""How fast several GPUs are, told by the anchor's times on them; the times are made up."""

import math

import numpy as np
import pytest

from evoflash.evaluation import Timing
from evoflash.gpu.timing.paired import RatioInterval
from evoflash.gpu.timing.relative import RelativeTime, anchor_note, factors, far_apart, gpu_note, in_words


def timed(gpu, us, *, anchor="a", protocol="screen"):
    timing = Timing("w", protocol, 9.0, 9.0, 9.0, 5)
    return gpu_note(gpu) | anchor_note(anchor, RelativeTime(RatioInterval(1, 1, 1), (timing,), us))


def samples(gpu, us, count, *, noise=0.003, **named):
    rng = np.random.default_rng(len(gpu) + count)
    return [timed(gpu, us * math.exp(noise * float(rng.normal())), **named) for _ in range(count)]


def test_the_factor_of_a_slow_gpu_is_what_it_takes_more_and_lies_in_its_interval():
    usual, slow = factors([*samples("GPU-1", 20.0, 60), *samples("GPU-2", 20.6, 40)])
    assert (usual.gpu, usual.n, slow.gpu, slow.n) == ("GPU-1", 60, "GPU-2", 40)
    assert usual.factor == pytest.approx(1.0, abs=0.002)
    assert slow.factor == pytest.approx(1.03, abs=0.002)
    assert slow.low < 1.03 < slow.high < slow.low * 1.01
    assert slow.median_us == pytest.approx(20.6, rel=0.002)


def test_times_of_two_anchors_and_of_two_protocols_are_not_mixed():
    environments = []
    for us, named in ((20.0, {}), (10.0, {"anchor": "b"}), (15.0, {"protocol": "cold-relative"})):
        environments += samples("GPU-1", us, 30, **named) + samples("GPU-2", 1.02 * us, 25, **named)
    usual, slow = factors(environments)
    assert usual.factor == pytest.approx(1.0, abs=0.002)
    assert slow.factor == pytest.approx(1.02, abs=0.002)
    assert slow.n == 75


def test_candidates_that_were_not_timed_beside_an_anchor_say_nothing():
    assert factors([{"gpu": "NVIDIA H200"}, timed("GPU-1", math.nan), {}]) == ()


def test_too_few_times_have_no_interval_and_no_warning():
    found = factors([*samples("GPU-1", 20.0, 60), *samples("GPU-2", 30.0, 4)])
    assert (found[1].low, found[1].high) == (0.0, math.inf)
    assert far_apart(found) is None
    assert "too few times to say how fast (4 timed beside the anchor" in in_words(found)[1]


@pytest.mark.parametrize(("ratio", "warned"), [(1.01, False), (1.05, True)])
def test_a_gpu_that_is_far_slower_than_another_is_warned_of(ratio, warned):
    said = in_words(factors([*samples("GPU-1", 20.0, 60), *samples("GPU-2", ratio * 20.0, 40)]))
    assert len(said) == 2 + warned
    assert said[-1].startswith("WARNING: one GPU takes 4.9 % (") == warned


def test_far_apart_says_by_how_much_and_how_surely():
    apart = far_apart(factors([*samples("GPU-1", 20.0, 60), *samples("GPU-2", 21.0, 40)]))
    assert apart.low < 1.05 < apart.high
    assert apart.ratio == pytest.approx(1.05, abs=0.002)


def test_noise_that_hides_a_difference_is_no_reason_to_warn():
    noisy = [*samples("GPU-1", 20.0, 8, noise=0.2), *samples("GPU-2", 21.0, 7, noise=0.2)]
    assert far_apart(factors(noisy)) is None


def test_a_single_gpu_has_no_words():
    assert in_words(factors(samples("GPU-1", 20.0, 60))) == []
