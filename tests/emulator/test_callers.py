"""A report names the calls that led to its line, and to the other one where that is watched."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import TESTS
from tables import data

from evoflash.app.check.findings import from_report, merge
from evoflash.app.check.one_run import places_told
from evoflash.app.check.runs import check_kernel, plan, run_case
from evoflash.app.check.subject import of_file
from evoflash.emulator.launch import Emulation, EmulatorReport, Memory, run_launch
from evoflash.kernels.gxx import build
from evoflash.launch import LaunchConfig

# Which of three tensors is read too far; `inner` is called by `row`, which the kernel calls.
SOURCE = (TESTS / "emulator" / "callers.cu").read_text()


def ran(far: int) -> Emulation:
    with Memory() as memory:
        x = memory.array("x", (32,), np.float32)
        y = memory.array("y", (32,), np.float32, writable=True)
        arguments = (np.uint64(x.ctypes.data), np.uint64(y.ctypes.data), np.int32(far))
        return run_launch(
            build(SOURCE, name="callers"), LaunchConfig("k", (1, 1, 1), (32, 1, 1), 0), arguments
        )


@pytest.mark.parametrize(("far", "line", "callers"), [(1, 3, (6, 12)), (2, 3, (6, 13)), (3, 15, ())])
def test_a_report_names_the_calls_that_led_to_its_line(far: int, line: int, callers: tuple[int, ...]) -> None:
    (report,) = ran(far).reports

    assert (report.kind, report.line, report.callers) == ("OOB-global", line, callers)
    assert report.message.startswith(
        "block (0,0,0)" + "".join(f", called from line {each}" for each in callers) + ": "
    )


def test_a_finding_shows_the_calls_as_places_of_its_own() -> None:
    (report,) = ran(2).reports
    finding = from_report(report, run="the first", shift=100)

    assert finding.line == 103
    assert finding.where == "block (0,0,0), called from line 106, called from line 113"
    assert [(place.line, place.label) for place in finding.places] == [
        (106, "called from here"),
        (113, "called from here"),
    ]


HEADER = data(__file__, "HEADER")
# K and V by one helper; `early` reads V while its copy may be under way.
COPIES = (TESTS / "emulator" / "copies.cu").read_text()


@pytest.mark.parametrize("watched", [(), (3,)])
def test_a_watched_line_is_named_with_the_call_that_led_to_it(watched: tuple[int, ...]) -> None:
    with Memory() as memory:
        x = memory.array("x", (128,), np.float32)
        y = memory.array("y", (32,), np.float32, writable=True)
        arguments = (np.uint64(x.ctypes.data), np.uint64(y.ctypes.data))
        library = build(COPIES, name="copies", tells_callers=True)
        launch = LaunchConfig("k", (1, 1, 1), (32, 1, 1), 1024)
        ran = run_launch(library, launch, arguments, delivery="lazy", watched=watched)
    (report,) = ran.reports

    assert (report.kind, report.line, report.line2) == ("async-not-waited", 6, 3)
    assert report.callers == (15,)
    assert report.callers2 == ((11,) if watched else ())
    assert "at line 3 " in report.message
    assert {site.line for site in ran.sites} == {3, 6, 17}


@pytest.mark.slow
def test_a_check_names_the_calls_of_both_places(tmp_path: Path) -> None:
    path = tmp_path / "copies.cu"
    path.write_text(HEADER + COPIES)
    (subject,) = of_file(path, problem=None, gpu=None)
    shift = HEADER.count("\n")

    (finding,) = (f for f in check_kernel(subject, runs=2, seed=1).findings if f.kind == "async-not-waited")

    assert finding.line == 6 + shift
    assert [(place.line - shift, place.label) for place in finding.places] == [
        (3, "where the copy was started"),
        (11, "where the copy was started, called from here"),
        (15, "called from here"),
    ]


def test_a_run_is_made_again_only_for_callers_that_no_earlier_run_has_told(tmp_path: Path) -> None:
    path = tmp_path / "copies.cu"
    path.write_text(HEADER + COPIES)
    (subject,) = of_file(path, problem=None, gpu=None)
    library = build(subject.source, name=subject.name, sees_all=True)
    (run, inputs), *_ = plan(1, seed=1)

    first = run_case(library, subject.cases[0], run, inputs)
    later = run_case(library, subject.cases[0], run, inputs, places_told(first))

    assert [report.callers2 != () for report in first.reports] == [True]
    assert [report.callers2 for report in later.reports] == [()]
    assert places_told(later) == places_told(first)


def test_the_line_to_mend_comes_before_the_one_where_it_was_noticed() -> None:
    said = (
        "block (0,0,0), called from line 30: asynchronous read: thread 0 wrote it at line 10 through stores"
    )
    report = EmulatorReport("missing-proxy-fence", 20, 10, 1, said, callers=(30,), callers2=(31,))
    finding = from_report(report, run="the first", shift=100)

    assert (finding.line, finding.where) == (110, "the ordinary write")
    assert [(place.line, place.label) for place in finding.places] == [
        (120, "where it was noticed"),
        (130, "where it was noticed, called from here"),
        (131, "called from here"),
    ]
    again = from_report(replace(report, line=25), run="the second", shift=100)
    (merged,) = merge([[finding], [again]])
    assert [place.line for place in merged.places if place.label == "where it was noticed"] == [120, 125]
