"""scripts/sanitizer/run.py without a GPU: jobs from the corpus, the tools' output read, counts, the page."""

import subprocess
from pathlib import Path

import pytest

from scripts.pages import emulator as sanitizer_page
from scripts.sanitizer import cases as sanitizer_cases
from scripts.sanitizer import digest as sanitizer_digest
from scripts.sanitizer import jobs as sanitizer_jobs
from scripts.sanitizer import processes as sanitizer_runs
from scripts.sanitizer import said

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at void ef::cp_async16_zfill(unsigned int, const void *)+0x4f0 in ef_copy.h:40
=========     by thread (3,0,0) in block (0,0,0)
=========     Access to 0x7f67e0001480 is out of bounds
=========         Device Frame: flash_mma(unsigned short *)+0x4f0 in kernel.cu:3
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: main [0x31d2] in runner.cpp:300
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) on CUDA API call to cuStreamQuery.
========= Target application returned an error
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at f(int *)+0x60 in kernel.cu:2
=========     and Read access at f(int *)+0xf0 in kernel.cu:4 [64 hazards]
=========     and Read access at ef::lds(unsigned int)+0x110 in ef_shared.h:22 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
NO_CUDA = """========= COMPUTE-SANITIZER
========= Error: Target application terminated before first instrumented API call
========= Error: couldn't find exit code.
"""
TEXT = "one\ntwo\nthree\nfour\n"


def run(output: str, code: int | None = 0) -> dict:
    return {"code": code, "seconds": 1.0, "output": output}


def test_reports_have_titles_and_device_places_only() -> None:
    (memory,), (race,) = said.reports(MEMCHECK), said.reports(RACECHECK)

    assert memory.title == "Invalid __global__ read of size 16 bytes"
    assert memory.places == (("ef_copy.h", 40), ("kernel.cu", 3))
    assert race.places == (("kernel.cu", 2), ("kernel.cu", 4), ("ef_shared.h", 22))
    assert said.reports(CLEAN) == []


def test_a_report_is_a_diagnosis_unless_the_right_kernel_gets_it_too() -> None:
    moved = "new first line\n" + TEXT
    lower = RACECHECK.replace("kernel.cu:2", "kernel.cu:3").replace("kernel.cu:4", "kernel.cu:5")

    found = said.diagnosis(run(RACECHECK), run(CLEAN), TEXT, TEXT, [4])
    elsewhere = said.diagnosis(run(RACECHECK), run(CLEAN), TEXT, TEXT, [3])
    same = said.diagnosis(run(lower), run(RACECHECK), moved, TEXT, [5])

    assert (found["outcome"], found["at_fault"]) == ("found", True)
    assert (
        found["said"]
        == "Error: Race reported between Write access (kernel.cu:2, kernel.cu:4, ef_shared.h:22)"
    )
    assert (elsewhere["outcome"], elsewhere["at_fault"]) == ("found", False)
    assert same["outcome"] == "silent"


@pytest.mark.parametrize(
    ("output", "code", "outcome", "ending"),
    [
        (CLEAN, 0, "silent", "done"),
        ("========= COMPUTE-SANITIZER\n", None, "failed", "hung"),
        (CLEAN + "runner: the kernels did not end within 10 s\n", 9, "silent", "hung"),
        ("runner: kernel: CUDA_ERROR_LAUNCH_FAILED\n" + MEMCHECK, 9, "found", "crashed"),
        ("========= COMPUTE-SANITIZER\n========= Error: Device not supported.\n", 1, "failed", "done"),
        (NO_CUDA, 255, "failed", "done"),
    ],
)
def test_silence_is_told_from_failure(output: str, code: int | None, outcome: str, ending: str) -> None:
    told = said.diagnosis(run(output, code), run(CLEAN), TEXT, TEXT, [])

    assert (told["outcome"], told["ending"]) == (outcome, ending)


@pytest.mark.parametrize(
    ("kernel", "maps", "numbers"), [("joint", 0, 22), ("split", 0, 23), ("hopper_plain", 4, 22)]
)
def test_a_job_gives_every_launch_all_arguments(kernel: str, maps: int, numbers: int) -> None:
    key = sanitizer_cases.keys((kernel,))[0]
    case = sanitizer_cases.case(key)

    words = [line.split()[0] for line in sanitizer_jobs.job(case, limit_s=5).splitlines()]

    launches = len(case.launches)
    assert words.count("map") == maps * launches
    assert words.count("pointer") + words.count("bytes") == numbers * launches
    assert words.count("buffer") == len(case.buffers)


def test_a_deleted_line_is_named_by_its_neighbours() -> None:
    keys = sanitizer_cases.keys(("joint",))
    key = next(key for key in keys if key.fault == "no barrier after the wait")
    text = sanitizer_cases.case(key).text.splitlines()

    lines = [text[line - 1] for line in sanitizer_jobs.fault_lines(key, "\n".join(text))]

    assert any("cp_async_wait" in line for line in lines)
    assert any("ldmatrix_x4(b, chunk_at(k_tile" in line for line in lines)


def test_the_runner_compiles_without_cudas_headers(tmp_path: Path) -> None:
    runner = sanitizer_runs.build_runner(tmp_path)

    ended = subprocess.run([str(runner)], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (2, "runner: bad job: none given\n")


def test_a_digest_counts_and_the_page_shows_it() -> None:
    key = {"kernel": "k", "fault": "", "problem": "", "trial": ""}
    common = {"text": TEXT, "compile_s": 0.5, "error": "", "alone": {}}
    quiet = {"plain": run(""), **{tool: run(CLEAN) for tool in sanitizer_runs.TOOLS}}
    right = {**common, "key": key, "kind": "", "fault_lines": [], "emulated": {}, "runs": quiet, "wrong": ""}
    fault = {
        **common,
        "key": {**key, "fault": "no barrier"},
        "kind": "race-RAW",
        "fault_lines": [4],
        "emulated": {"found": True, "kind": "race-RAW", "line": 4, "cpu_s": 0.2},
        "runs": {**quiet, "racecheck": run(RACECHECK)},
        "wrong": "all of it",
    }
    head = {"date": "2026-11-21", "gpu": "H200", "sanitizer": "2025", "nvrtc": "13", "cpu": "c", "at_once": 1}
    raw = {**head, "gpus": 1, "options": {}, "command": "c", "cases": [right, fault]}

    digest = sanitizer_digest.digest(raw)
    counts = digest["summary"]["by_kind"]["race-RAW"]

    assert (counts["racecheck"]["found"], counts["racecheck"]["at_fault"], counts["memcheck"]["found"]) == (
        1,
        1,
        0,
    )
    assert digest["faults"][0]["plain"]["outcome"] == "wrong"
    page = sanitizer_page.tables(digest)
    row = ("1", "1 of 1", "0 of 1", "1 of 1", "0 of 1", "0 of 1", "1 of 1", "")
    assert f"| `race-RAW` | {' | '.join(row)} |" in page
    assert "| k | no barrier | race-RAW, 4 | wrong | - | **Error: Race reported" in page
