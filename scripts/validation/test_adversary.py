"""The adversary's script finds an edit where it is noticed, lets a right kernel be, and counts truly."""

from dataclasses import replace
from pathlib import Path

import pytest

from evoflash.specs import load_gpu
from evoflash.trust.selftest.corpus import FOLDER, build_fraud, corpus
from scripts.validation import adversary
from scripts.validation.adversary import Row, chosen, examine, record

SINGLE_EDITS, FOURTH_SET, FIFTH_SET, SIXTH_SET, SEVENTH_SET, NINTH_SET = (
    Path(__file__).parent / name
    for name in ("single_edits", "fourth_set", "fifth_set", "sixth_set", "seventh_set", "ninth_set")
)

CAUGHT = Row("direct", "values past the end read", "single edits, D1c", "preflight", "OOB-global", 0.2)


@pytest.mark.parametrize(
    ("name", "rung", "says"),
    [
        pytest.param("honest direct", "", "", marks=pytest.mark.full),  # goes through every check shape
        ("values past the end read", "preflight", "OOB-global"),
    ],
)
def test_what_is_right_is_let_be_and_an_edit_is_noticed(name: str, rung: str, says: str) -> None:
    row = examine((FOLDER, name))

    assert (row.rung, row.is_good) == (rung, True)
    assert says in row.reason


@pytest.mark.parametrize("folder", [FOLDER, SINGLE_EDITS, *sorted(Path(__file__).parent.glob("*_set"))])
def test_every_edit_of_a_set_fits_the_kernel_as_it_is_rendered_today(folder: Path) -> None:
    for fraud in corpus(folder):
        build_fraud(fraud, load_gpu(adversary.GPU))  # else UsageError, which would end the whole set


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [
        (SINGLE_EDITS, "rows of K and V in 32 bits"),
        (SINGLE_EDITS, "O's head in 32 bits"),
        (SINGLE_EDITS, "second section of heads"),
        (SINGLE_EDITS, "tiles counted to a hundred"),
        (FOURTH_SET, "K of eight batches"),
        (FOURTH_SET, "V of two heads"),
        (FOURTH_SET, "O's rows in 32 bits"),
        (FIFTH_SET, "Q's rows in 32 bits"),
    ],
    ids=lambda edit: edit[1],
)
@pytest.mark.full
def test_the_preflight_notices_the_classes_that_slipped_through_when_they_were_new(
    edit: tuple[Path, str],
) -> None:
    assert examine(edit).rung == "preflight"


@pytest.mark.parametrize(
    ("name", "rung"),
    [
        ("X01", "preflight"),
        ("T03", "preflight"),
        ("G05", "preflight"),
        ("A01", "preflight"),
        ("H08", "preflight"),
        ("B06", "preflight"),
        ("R06", "preflight"),
        ("N09", "preflight"),
        ("N03", "as a finalist"),
        ("A04", ""),
    ],
)
@pytest.mark.sample(2)
def test_what_the_second_adversary_planted_is_noticed(name: str, rung: str) -> None:
    row = examine((SIXTH_SET, name))
    assert row.rung in ({rung, "preflight"} if rung else {""})
    assert row.is_good


@pytest.mark.parametrize("name", ["P05", "Z04", "D04", "Z03", "K03", "K04"])
@pytest.mark.sample(2)
def test_what_public_kernels_once_did_wrong_is_noticed(name: str) -> None:
    assert examine((SEVENTH_SET, name)).rung == "preflight"


@pytest.mark.parametrize("name", ["P04", "P13", "P15", "P34", "P35", "P38"])
@pytest.mark.sample(1)
def test_what_slipped_through_of_linear_layers_and_clusters_is_noticed(name: str) -> None:
    assert examine((NINTH_SET, name)).rung == "preflight"


@pytest.mark.full  # 8 s
def test_the_check_shapes_notice_what_the_preflight_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adversary, "_preflight", lambda fraud, gpu, seed: "")

    assert examine((FOLDER, "second row's LSE of another warp")).rung in ("check shapes", "as a finalist")


def test_edits_and_their_kernels_are_chosen_by_kernel_name_and_number() -> None:
    direct = chosen("direct")

    assert [fraud.name for fraud in direct if fraud.is_control] == ["honest direct"]
    assert len(direct) >= 5
    assert [fraud.name for fraud in chosen("D1c,second row's LSE of another warp")] == [
        "values past the end read",
        "second row's LSE of another warp",
    ]
    assert len(chosen("")) >= 90


def test_the_record_counts_edits_by_rung_and_names_false_alarms() -> None:
    control = replace(CAUGHT, name="honest direct", source="control", is_control=True)
    found = record([CAUGHT, replace(CAUGHT, name="b", rung=""), control], took_s=1.0)

    assert found["edits"] == 2
    assert found["by_rung"] == {"preflight": 1, "not noticed": 1}
    assert found["false_alarms"] == ["honest direct"]
