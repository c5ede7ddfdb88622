"""Tables that go to a file or a pipe have a row in one line, and figures keep their last zeros."""

import io

import pytest
from rich.console import Console

from evoflash.app.catalogue import problem_name
from evoflash.views.runs import _age
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import four_digits

LONG = "b=4,h=32,hkv=8,sq=4096,skv=8192,d=128,dtype=bf16,causal"


def piped(*columns: Column, title: str = "") -> list[str]:
    text = io.StringIO()
    print_table(columns, Console(file=text, width=40), title=title)
    return text.getvalue().splitlines()


def test_a_row_is_one_line_without_blanks_at_its_end() -> None:
    lines = piped(
        Column("problem", (LONG, "mission"), is_number=False, wraps_at=10),
        Column("us", ("9.500", "11.80")),
        Column("note", ("", "short"), is_number=False),
        title="a title that is longer than forty letters are",
    )
    assert lines == [
        "a title that is longer than forty letters are",
        f"{'problem':{len(LONG)}}     us  note",
        "\u2500" * (len(LONG) + 2 + 5 + 2 + 5),
        f"{LONG}  9.500",
        f"{'mission':{len(LONG)}}  11.80  short",
    ]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (11.8, "11.80"),
        (895.0, "895.0"),
        (12.3, "12.30"),
        (9876.54, "9877"),
        (0.515, "0.5150"),
        (999.96, "1000"),
    ],
)
def test_four_digits_keep_their_zeros(number: float, shown: str) -> None:
    assert four_digits(number) == shown


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("b=4,h=32,hkv=8,sq=4096,skv=4096,d=128,dtype=fp16,causal", "gqa4k_d128,causal"),
        ("b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=bf16", "mission,dtype=bf16"),
        ("b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16", "mission"),
        ("b=16,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=fp16", "decode8k"),
        ("b=3,h=8,hkv=8,sq=70,skv=70,d=64,dtype=fp16", "b=3,h=8,hkv=8,s=70,d=64"),
        (LONG, LONG),
        ("cn_pnpoly 20000000", "cn_pnpoly 20000000"),
        (
            "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16+b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16,causal",
            "mission+mission,causal",
        ),
    ],
)
def test_a_problem_is_shown_by_its_name(stored: str, named: str) -> None:
    assert problem_name(stored) == named


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "0 s"), (18, "18 s"), (119, "119 s"), (300, "5 min"), (12_000, "3 h 20 min"), (200_000, "2 days")],
)
def test_an_age_has_its_unit(seconds: float, said: str) -> None:
    assert _age(seconds) == said
