"""Mutation testing of the hand-written Hopper kernel: which mutants count where; some are found out."""

import pytest

from scripts.hopper_kernel.mutants import CORES, cores, examine, tasks
from scripts.hopper_kernel.mutation_testing import nowhere
from scripts.mutation_testing.equivalents import equivalents
from scripts.mutation_testing.grid import Task
from scripts.mutation_testing.mutants import mutants
from scripts.mutation_testing.run import Outcome

ALL = cores([name for name, _, _ in CORES])


def task(configuration: str, what: str) -> Task:
    """The first mutant of a configuration in whose words `what` occurs."""
    (core,) = cores([configuration])
    return next(each for each in tasks([core]) if each.mutant and what in each.mutant.what_at)


@pytest.mark.parametrize(
    ("configuration", "what", "kind"),
    [
        ("plain", "one arrival fewer: ef::mbar_init(k_empty", "race-WAR"),
        ("turns_only", "no wait: ef::bar_sync(kTurn", "named-barrier"),
        ("shared_p_overlap", "deleted: ef::fence_proxy_async()", "missing-proxy-fence"),
        ("multicast", "deleted: ef::cluster_sync()", "mbarrier-init-race"),
    ],
)
def test_a_weakened_kernel_is_reported(configuration: str, what: str, kind: str) -> None:
    outcome = examine(task(configuration, what))

    assert (outcome.ending, outcome.kind) == ("reported", kind)


def test_a_bound_too_far_is_a_wrong_result() -> None:
    outcome = examine(task("alone", "bound - 1: limit < seq_kv"))

    assert (outcome.ending, outcome.kind) == ("wrong", "")


def test_a_change_in_the_branch_of_another_configuration_does_not_count() -> None:
    assert examine(task("plain", "deleted: ef::cluster_sync()")).ending == "elsewhere"


def test_the_kernels_themselves_pass() -> None:
    assert examine(Task(cores(["one_stage"])[0], None)).ending == "survived"


def test_what_counts_nowhere_has_survived_once() -> None:
    here, there = task("plain", "deleted: ef::syncthreads()"), task("one_stage", "deleted: ef::syncthreads()")
    fences = [task(name, "deleted: ef::wgmma_fence_acc(s)") for name in ("plain", "one_stage")]
    outcomes = [Outcome(here, "elsewhere"), Outcome(there, "reported")]

    found = nowhere([*outcomes, *(Outcome(fence, "elsewhere") for fence in fences)])

    assert [(each.task, each.ending) for each in found] == [(there, "reported"), (fences[0], "survived")]


def test_every_reviewed_entry_is_about_some_mutant() -> None:
    found = [(core, mutant) for core in ALL for mutant in mutants(core.render().source)]

    for entry in equivalents():
        if "hopper" in entry.families:
            assert any(entry.covers(mutant, "hopper", core.names()) for core, mutant in found), entry.reason
