"""Credit: what a child earns, what a bottleneck says, shrinkage towards the prior, floor and control arm."""

import math
from dataclasses import replace

import numpy as np
import pytest
from strategy_cases import SPACE, evaluated

from evoflash.evaluation import Build, Timing
from evoflash.operations.attention.workload import AttentionKey
from evoflash.strategies.operators import CONTROL, FLOOR, Credit, Trait, diagnosis, is_control, reward

GENOME = SPACE.sample(np.random.default_rng(0))
NAMES = ("good", "bad", "meant")


def credit() -> Credit:
    return Credit({"good": Trait(), "bad": Trait(), "meant": Trait(1.0, ("shared",))})


def shares(tallies: Credit, bound: str = "", family: str = "f") -> dict[str, float]:
    return dict(zip(NAMES, tallies.shares(family, bound, NAMES), strict=True))


def test_rewards_rank_failure_slower_faster_and_much_faster() -> None:
    outcomes = [None, 11.0, 9.9, 9.5, 9.0, 5.0]
    earned = [reward(evaluated(GENOME, us), 10.0) for us in outcomes]
    assert earned[0] == 0.0 < earned[1] < earned[2] < earned[3] < earned[4] == earned[5] == 1.0


def test_a_duplicate_earns_nothing_and_a_lower_bound_no_gain() -> None:
    bound = Timing("p", "cold", 5.0, 5.0, 5.0, 1, censored=True)
    censored = replace(evaluated(GENOME, 5.0), timings=(bound,))
    assert reward(evaluated(GENOME, 5.0, duplicate_of="0" * 16), 10.0) == 0.0
    assert reward(censored, 10.0) == reward(evaluated(GENOME, 11.0), 10.0)


def test_a_child_of_unknown_parents_earns_what_a_slower_one_does() -> None:
    assert reward(evaluated(GENOME, 1.0), None) == reward(evaluated(GENOME, 2.0), 1.0)


def test_spills_are_the_diagnosis_whatever_the_model_says() -> None:
    build = Build(GENOME.id, AttentionKey(64, "fp16", False, 1, "sm_89"), "", "")
    fine = replace(evaluated(GENOME, 1.0), bound="tensor", builds=(build,))
    assert diagnosis(fine) == "tensor"
    assert diagnosis(replace(fine, builds=(build, replace(build, spill_bytes=8)))) == "spills"
    assert diagnosis(evaluated(GENOME, 1.0)) == ""


def test_without_data_the_priors_decide() -> None:
    tallies = Credit({"good": Trait(4.0), "bad": Trait(0.5), "meant": Trait(1.0)})
    drawn = shares(tallies)
    assert drawn["good"] > drawn["meant"] > drawn["bad"]


def test_an_operator_counts_more_against_the_bottleneck_it_is_meant_for() -> None:
    tallies = credit()
    assert shares(tallies, "shared")["meant"] > shares(tallies, "tensor")["meant"]
    assert shares(tallies, "tensor")["meant"] == pytest.approx(shares(tallies)["good"])


def test_measured_gains_outweigh_the_prior() -> None:
    tallies = Credit({"good": Trait(0.5), "bad": Trait(4.0), "meant": Trait()})
    for _ in range(40):
        tallies.learn("f", "l2", "good", 1.0)
        tallies.learn("f", "l2", "bad", 0.0)
    drawn = shares(tallies, "l2")
    assert drawn["good"] > 0.5 > 5 * drawn["bad"]


def test_a_bottleneck_not_seen_yet_is_judged_by_the_family_and_another_family_by_the_prior() -> None:
    tallies = credit()
    for _ in range(20):
        tallies.learn("f", "l2", "good", 1.0)
    assert shares(tallies, "tensor")["good"] > 1.5 * shares(tallies, "tensor")["bad"]
    assert shares(tallies, "tensor", family="other")["good"] == pytest.approx(1 / 3)


def test_bottlenecks_are_told_apart() -> None:
    tallies = credit()
    for _ in range(20):
        tallies.learn("f", "l2", "good", 1.0)
        tallies.learn("f", "tensor", "good", 0.0)
    assert tallies.expected_reward("f", "l2", "good") > 2 * tallies.expected_reward("f", "tensor", "good")


def test_one_child_moves_the_expectation_less_than_ten_do() -> None:
    before, once, often = credit(), credit(), credit()
    once.learn("f", "", "good", 1.0)
    for _ in range(10):
        often.learn("f", "", "good", 1.0)
    figures = [tallies.expected_reward("f", "", "good") for tallies in (before, once, often)]
    assert figures[0] < figures[1] < 0.5 * figures[2] < 0.5


def test_shares_add_up_and_nothing_dies() -> None:
    tallies = credit()
    for _ in range(1000):
        tallies.learn("f", "", "bad", 0.0)
        tallies.learn("f", "", "good", 1.0)
    drawn = shares(tallies)
    assert math.fsum(drawn.values()) == pytest.approx(1.0)
    assert drawn["bad"] >= FLOOR / len(NAMES)


def test_an_operator_that_no_longer_exists_is_passed_over() -> None:
    tallies = credit()
    tallies.learn("f", "l2", "gone", 1.0)
    assert shares(tallies) == shares(credit())


def test_the_control_arm_has_its_share_and_is_the_same_on_every_look() -> None:
    chosen = [is_control(7, position) for position in range(4000)]
    assert chosen == [is_control(7, position) for position in range(4000)]
    assert chosen != [is_control(8, position) for position in range(4000)]
    assert sum(chosen) / len(chosen) == pytest.approx(CONTROL, abs=0.02)
