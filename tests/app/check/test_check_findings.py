"""Findings: what reports become, how runs merge, how they look; and that every kind has its advice."""

import io
import re
from pathlib import Path

import pytest
from places import ROOT
from rich.console import Console
from tables import table_of_cases

from evoflash.app.check import text_findings
from evoflash.app.check.coverage import NOTHING, Coverage
from evoflash.app.check.findings import KINDS, Finding, Place, from_report, merge, slow_accesses
from evoflash.app.check.one_run import RunRecord
from evoflash.app.check.runs import CheckReport
from evoflash.app.check.subject import KernelUnderTest
from evoflash.emulator.call import EmulatorRun
from evoflash.emulator.launch import EmulatorReport, Site
from evoflash.errors import UsageError
from evoflash.evaluation import Build
from evoflash.operations.attention.workload import AttentionKey
from evoflash.views.check import explain, print_reports

EMU = ROOT / "evoflash" / "emulator" / "emu"
TEXT = "one\n  ef::sts(smem, ef::fmax(a, b));  // comment\n\tx = y;\n" + "four(" + "x" * 200 + ");\n"
RACE = (
    "block (0,1,0): write of shared offset 8 by thread 3 is not ordered after the read at line 5 by thread 4"
)


def kinds_in_the_emulator() -> set[str]:
    """Kinds are given to a reporting function; a few pass through one that takes the kind."""
    text = "".join(path.read_text() for path in [*EMU.glob("*.cpp"), *EMU.glob("*.h")])
    reported = re.findall(r'\b(?:\w*report|refuse\w*|end_with|check_order|stop_kernel)\(\s*"([\w-]+)"', text)
    hyphenated = re.findall(r'"([A-Za-z]+(?:-[A-Za-z]+)+)"', text)
    return {*reported, *hyphenated}


COVERAGE = Coverage(("O with the fp64 reference.",), (), ("The rest.",))


def shown(
    findings: tuple[Finding, ...],
    *,
    coverage: Coverage = COVERAGE,
    width: int | None = None,
    colours: bool = False,
    text: str = TEXT,
) -> str:
    subject = KernelUnderTest("k.cu", "k", text, (), None, None, Path("k.cu"), text)
    runs = (RunRecord("case", EmulatorRun("lazy", "fifo", 1, 1.0), "normal", 0.1),) * 4
    page = io.StringIO()
    console = Console(
        file=page, width=width or 180, force_terminal=width is not None, no_color=not colours, highlight=False
    )
    print_reports([CheckReport(subject, Path("k.cu"), runs, findings, None, (), coverage)], console)
    return page.getvalue()


# ---- advice


def test_every_kind_that_the_emulator_reports_has_its_advice():
    kinds = kinds_in_the_emulator()

    assert {"race-RAW", "race-WAR", "race-WAW", "DEADLOCK", "OOB-shared", "OOB-raw", "divergence"} <= kinds
    assert kinds - KINDS.keys() == set()


def test_no_advice_is_about_a_kind_that_nothing_reports():
    # What the command finds by itself stands in its package, and what a launch finds beside the launch.
    folders = [ROOT / "evoflash" / name for name in ("app/check", "app/judge", "emulator")]
    sources = [path for folder in folders for path in folder.glob("*.py") if path.name != "advice.py"]
    text = "".join(path.read_text() for path in sources)
    own = {kind for kind in KINDS if f'"{kind}"' in text}

    assert KINDS.keys() - kinds_in_the_emulator() - own == set()


@pytest.mark.parametrize("kind", KINDS)
def test_advice_is_whole_sentences(kind):
    known = KINDS[kind]

    assert known.meaning.endswith(".")
    assert known.remedy.endswith(".")
    assert known.severity in ("error", "warning")


def test_explain_prints_what_a_kind_means_and_lists_the_kinds_for_another():
    assert explain("race-WAR").startswith("error[race-WAR]\nA write is not ordered")
    with pytest.raises(UsageError, match="race-RAW, race-WAR"):
        explain("race")


# ---- reports to findings


def test_a_report_becomes_a_finding_with_its_block_and_its_second_place():
    finding = from_report(EmulatorReport("race-WAR", 9, 5, 7, RACE), run="lazy")

    assert finding.where == "block (0,1,0)"
    assert finding.message.startswith("write of shared offset 8 by thread 3")
    assert finding.places == (Place(5, KINDS["race-WAR"].second),)
    assert (finding.line, finding.count, finding.runs, finding.first_run) == (9, 7, 1, "lazy")


def test_lines_are_shifted_in_places_and_in_the_message():
    finding = from_report(EmulatorReport("race-WAR", 9, 5, 1, RACE), run="", shift=100)

    assert (finding.line, finding.places[0].line) == (109, 105)
    assert "the read at line 105 by thread 4" in finding.message


def test_each_group_of_a_deadlock_is_a_place():
    message = (
        "block (0,0,0): no thread can go on; threads 0-31: bar_sync at line 7 (barrier 1: 32 of 64 threads "
        "have come); threads 32-63: exited"
    )
    finding = from_report(EmulatorReport("DEADLOCK", 7, 0, 1, message), run="")

    assert finding.message == "no thread can go on"
    assert finding.places == (
        Place(7, "threads 0-31: bar_sync (barrier 1: 32 of 64 threads have come)"),
        Place(0, "threads 32-63: exited"),
    )


def report(kind: str, line: int, line2: int, count: int = 1) -> Finding:
    return from_report(EmulatorReport(kind, line, line2, count, "message"), run="")


def test_runs_merge_to_one_finding_a_kind_and_line_that_counts_its_runs():
    first = [report("race-WAR", 9, 5, 3), report("race-WAR", 9, 6, 2)]
    merged = merge([first, [], [report("race-WAR", 9, 5)], [report("race-RAW", 9, 5)]])

    assert [(f.kind, f.runs, f.count) for f in merged] == [("race-WAR", 2, 6), ("race-RAW", 1, 1)]
    assert [place.line for place in merged[0].places] == [5, 6]


def test_two_places_that_are_alike_are_one_finding_either_way_round():
    merged = merge([[report("race-WAW", 3, 5)], [report("race-WAW", 5, 3)], [report("race-RAW", 5, 3)]])
    ordered = merge([[report("race-RAW", 3, 5)], [report("race-RAW", 5, 3)]])

    assert [(f.kind, f.line, f.runs) for f in merged] == [("race-WAW", 3, 2), ("race-RAW", 5, 1)]
    assert [f.line for f in ordered] == [3, 5]


def test_errors_come_before_warnings():
    merged = merge([[report("emulator-limit", 1, 0)], [report("race-RAW", 3, 5)]])

    assert [f.severity for f in merged] == ["error", "warning"]


# ---- slow accesses


def test_bank_conflicts_and_uncoalesced_accesses_are_named_with_their_factor():
    sites = [
        Site(2, "ldmatrix", 10, 320, 40),
        Site(2, "ldmatrix", 10, 320, 40),
        Site(3, "lds", 10, 10, 10),
        Site(3, "ldg", 10, 330, 40),
    ]
    conflict, sectors = slow_accesses(sites, shift=1)

    assert (conflict.kind, conflict.line, sectors.kind, sectors.line) == (
        "bank-conflict",
        3,
        "uncoalesced",
        4,
    )
    assert "8.0 times" in conflict.message
    assert "640 instead of 80 for 20 warp instructions" in conflict.message


def test_a_tail_that_wastes_a_sector_is_not_worth_a_word():
    assert slow_accesses([Site(2, "ldg", 100, 1000, 1000), Site(3, "stg", 1, 2, 1)]) == ()


# ---- compilers


def test_an_error_of_gpp_points_at_the_kernel_also_when_it_stands_in_the_layer():
    log = (
        "/cache/k.cu: In function 'void k()':\n"
        "/cache/k.cu:13:5: error: 'no_such' was not declared\n"
        "/cache/ef.h: In instantiation of 'T ef::lds(u32)':\n"
        "/cache/k.cu:20:11:   required from here\n"
        "/cache/ef.h:60:3: error: static assertion failed\n"
    )
    own, inside = text_findings.from_gcc(log, file="k.cu", shift=2)

    assert (own.line, own.column, own.message) == (15, 5, "'no_such' was not declared")
    assert (inside.line, inside.column, inside.message) == (22, 0, "static assertion failed")


def test_errors_of_nvrtc_are_read_off_its_log():
    log = 'k.cu(13): error: identifier "x" is undefined\n\nef.h(9): error: no\n\n2 errors detected.\n'
    own, inside = text_findings.from_nvrtc(log, file="k.cu")

    assert (own.line, own.message) == (13, 'identifier "x" is undefined')
    assert (inside.line, inside.message) == (0, "no (ef.h, line 9)")


def test_spills_and_serialised_wgmma_are_warnings():
    message = (
        "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are serialized "
        "due to non wgmma instructions in the function 'k'"
    )
    key = AttentionKey(64, "fp16", False, 1, "sm_90a")
    build = Build("g", key, "s", "c", registers=255, spill_bytes=40, warnings=(message,))
    spills, serialized = text_findings.from_build(build, arch="sm_90a")

    assert (spills.kind, serialized.kind) == ("spills", "wgmma-serialized")
    assert "40 bytes" in spills.message
    assert serialized.message.startswith("(C7513) Potential")
    assert {spills.severity, serialized.severity} == {"warning"}


# ---- the page


def test_a_finding_looks_like_a_compilers():
    finding = Finding(
        "race-WAR", "the message", 2, 0, "block (0,0,0)", (Place(3, "the read"),), 2, 1500, "lazy delivery"
    )
    page = shown((finding,))

    assert page.splitlines()[:11] == [
        "error[race-WAR]: the message",
        " --> k.cu:2:3",
        "  |",
        "2 |   ef::sts(smem, ef::fmax(a, b));  // comment",
        "  |   ^^^^^^^ block (0,0,0)",
        "note: the read",
        " --> k.cu:3:5",
        "  |",
        "3 |     x = y;",
        "  |     ^^^^^^",
        "  = seen: in 2 of 4 runs, 1,500 times; first with lazy delivery",
    ]
    assert "  = help: All readers must be done" in page
    assert page.splitlines()[-2] == "failed: k.cu: 1 error in 4 runs over 1 shape"


@table_of_cases()
def test_the_carets_stand_under_the_call_that_the_message_is_about(message, code, carets):
    page = shown((Finding("race-WAR", message, 1),), text=code).splitlines()
    at = page[4].index("^")

    assert page[3][at : at + page[4].count("^")] == carets


def test_the_remedy_is_printed_once_a_kind():
    page = shown((Finding("race-WAR", "a", 1), Finding("race-WAR", "b", 3)))

    assert page.count("= help") == 1


def test_warnings_alone_pass_and_a_column_moves_the_caret():
    page = shown((Finding("ptxas", "a", 3, column=9),))

    assert "passed: k.cu: 1 warning" in page
    assert "  |         ^\n" in page


def test_on_a_narrow_terminal_source_lines_are_cut_and_prose_is_wrapped():
    page = re.sub(r"\x1b\[\d*m", "", shown((Finding("race-WAR", "m", 4, runs=1),), width=50))
    lines = [line for line in page.splitlines() if not line.startswith(("What", "failed"))]

    assert max(map(len, lines)) <= 50
    assert "4 | four(xxx" in page
    assert "...\n" in page


def test_colours_are_for_terminals_only():
    finding = (Finding("race-WAR", "m", 2),)

    assert "\x1b[1;31merror[race-WAR]" in shown(finding, width=80, colours=True)
    assert "\x1b[31m" not in shown(finding, width=80)
    assert "\x1b" not in shown(finding)


def test_a_kernel_without_findings_passes_in_one_line():
    assert shown(()).splitlines() == [
        "passed: k.cu: no findings in 4 runs over 1 shape",
        "compared: O with the fp64 reference.",
        "not compared: The rest.",
    ]


def test_a_kernel_of_which_nothing_was_compared_has_not_passed():
    page = shown((), coverage=NOTHING)

    assert page.startswith("unjudged: k.cu: no findings")
    assert "compared: Nothing: no output was changed and compared with anything" in page
