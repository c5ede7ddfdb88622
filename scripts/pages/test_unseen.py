"""The page and the README's words on problems that nobody tuned: what counts, what is timed later. No GPU."""

import json

import pytest

from scripts.pages import unseen
from scripts.pages.parts import without_archive
from scripts.peers.ratios import merged

ROW = "b=6,h=20,s=700,d=64"
TUNED = "b=3,h=7,s=777,d=64"


def row_of(row, genome="abc", **ratios):
    """A row with our kernel at 10 us, and each library's time over it."""
    comparisons = [
        {"first": name, "protocol": "final-cold", "ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
        for name, ratio in ratios.items()
    ]
    timings = {
        name: [{"protocol": "final-cold", "median_us": 10 * ratio}]
        for name, ratio in {genome: 1, **ratios}.items()
    }
    search = {"spent": 9, "wall_s": 3.0, "stopped": False, "seconds_by_rung": {"compile": 1.0}}
    return {
        "row": row,
        "ours": {"id": genome},
        "timings": timings,
        "comparisons": comparisons,
        "wrong": {},
        "search": search,
    }


def record_of(*rows, date="2026-11-25", **more):
    head = {"gpu": "H100", "date": date, "evoflash": "0", "driver": "1", "minutes": 3.0, "budget": 200}
    return {**head, "command": "run it", "seed": 1, "took_s": 5.0, "rows": list(rows), **more}


def test_rows_that_constants_were_chosen_on_are_shown_and_do_not_count():
    record = record_of(row_of(ROW, fa4=1.2), row_of(TUNED, fa4=0.9))
    said = "\n".join(unseen.section(record))
    assert "**Geometric mean over 1 problem: 1.200**" in said
    assert f"| *`{TUNED}`* | 10.00 | FA4 | 9.00 | 0.900 [0.890, 0.910] |" in said


def test_a_library_that_was_timed_later_counts_by_its_ratio_there():
    record = record_of(
        row_of(ROW, fa4=1.2, sdpa_cudnn=1.5), later={ROW: row_of(ROW, fa3=1.1, sdpa_cudnn=1.05)}
    )
    said = "\n".join(unseen.section(record))
    assert "| FA3, timed later | 11.00 | 1.100 [1.090, 1.110] |" in said
    assert "Libraries that ran: cuDNN; FA3; FA4." in said


def test_a_later_run_of_another_kernel_is_refused():
    record = record_of(row_of(ROW, fa4=1.2), later={ROW: row_of(ROW, "def", fa3=1.1)})
    with pytest.raises(ValueError, match="timed another kernel"):
        unseen.section(record)


def test_parts_are_joined_also_where_one_was_joined_before(tmp_path):
    before = merged([record_of(row_of(ROW, fa4=1.2)), record_of({"row": TUNED, "failure": "not begun"})])
    listed = {**before, "command": ["one", "two"], "seed": [3, 4], "took_s": [5.0, 6.0]}
    whole = merged([listed, record_of(row_of(TUNED, fa4=1.3))])
    assert whole["command"] == "one; two; run it"
    assert (whole["seed"], whole["took_s"]) == ("3, 4, 1", 6.0)
    assert ["failure" in row for row in whole["rows"]] == [False, False]

    later = tmp_path / "later.json"
    later.write_text(json.dumps(record_of(row_of(ROW, fa3=1.1), command="run later", seed=7)))
    kept = unseen.with_later_session(whole, later)
    assert list(kept["later"]) == [ROW]
    assert kept["command"].endswith("; run later")
    assert kept["seed"].endswith(", 7")


def alone_of(*ratios, date="2026-11-25"):
    rows = [
        {
            "row": f"row{at}",
            "search": {"spent": 9, "wall_s": 3.0},
            "found": {"family": "flash_mma"},
            "results": [
                {"protocol": "pairs-cold-boost", "ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01}
                | {"first": {"median_us": 10 * ratio}, "second": {"median_us": 10.0}},
                {"protocol": "pairs-cold-sustained", "ratio": 0.5},
            ],
        }
        for at, ratio in enumerate(ratios)
    ]
    rows.append({"row": "lost", "failure": "not begun", "search": {}})
    return record_of(*rows, date=date)


def test_searches_without_the_archive_have_a_section_of_their_own():
    said = "\n".join(without_archive.section(alone_of(0.98, 1.02, 1.2)))
    assert "**2 of 3 rows within 3% of the archive's kernel, 1 of them faster than it.**" in said
    assert (
        "| `row0` | 9.80 | 10.00 | 0.980 [0.970, 0.990]; 0.500 under the power cap | flash_mma | "
        "9 evaluations, 3 s |"
    ) in said
    assert "| `lost` | - | - | none: not begun | - | - |" in said


def test_the_readme_says_the_newest_of_several_problems():
    rows = [row_of(f"b=1,h=1,s={64 * at},d=64", fa3=1.1, fa4=1.21) for at in range(1, 6)]
    few, old = record_of(row_of(ROW, fa4=9.0), date="2026-12-01"), record_of(*rows, date="2026-11-01")
    said = unseen.digest([few, old], [alone_of(1.5, date="2026-01-01"), alone_of(1.0, 1.1)])
    assert "3 minutes each, ended so many times as fast as the fastest library" in said
    assert "1.10 on an H100 (geometric mean of 5, least 1.10)." in said
    assert "FlashAttention-3 and -4 among them" in said
    assert "1 of 2 searches came within 3%" in said
