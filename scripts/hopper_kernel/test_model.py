"""The performance model held against a Hopper kernel's times: report, emulated counts, held-out rows."""

import json
from pathlib import Path

import pytest

from evoflash.errors import UsageError
from evoflash.operations.attention.workload import parse_workload
from evoflash.perf_model.estimate import constants
from scripts.hopper_kernel import model as hopper_model
from scripts.hopper_kernel.cases import ARCH, CONFIGURATIONS
from scripts.model.space_file import profile_record, read_profile

RECORDS = Path(__file__).parent / "records"
MEASURED = RECORDS / "hopper-h200.json"
REPORT = json.loads((RECORDS / "model-hopper.json").read_text(encoding="utf-8"))
MISSION = parse_workload("mission")


@pytest.fixture
def recorded(monkeypatch):
    """Profiles from the report, in the emulator's place."""

    def profile_of(configuration, key):
        name = next(name for name, each in CONFIGURATIONS.items() if each == configuration)
        return read_profile(REPORT["profiles"][f"{name} {key}"])

    monkeypatch.setattr(hopper_model, "profile_of", profile_of)
    return hopper_model.rows_of(hopper_model.read_measured(MEASURED))


def test_the_report_has_what_the_model_says_of_each_timed_configuration(recorded):
    measured = [row for row in json.loads(MEASURED.read_text())["rows"] if row["kind"] == "time"]
    ours = [row for row in measured if row["configuration"] in CONFIGURATIONS]

    assert sum(len(row["configurations"]) for row in REPORT["rows"]) == len(ours) == 17
    assert [hopper_model.row_record(row) for row in recorded] == REPORT["rows"]
    assert hopper_model.overall(recorded) == REPORT["rms_log_error"]


def test_the_emulator_still_counts_what_the_report_holds():
    key = MISSION.compile_key(ARCH)
    found = profile_record(hopper_model.profile_of(CONFIGURATIONS["ping_pong"], key))

    stored = read_profile(REPORT["profiles"][f"ping_pong {key}"])
    assert found == profile_record(stored)


def test_a_row_is_judged_by_constants_that_did_not_see_it(recorded, monkeypatch):
    rows = recorded[:2]
    fitted = []

    def fit(some, names, *, every):
        fitted.append(some)
        constants()[names[0]] = 0.0
        return {}

    monkeypatch.setattr(hopper_model, "fit", fit)
    before = dict(constants())

    found = hopper_model.held_out(rows)

    assert fitted == [[rows[1]], [rows[0]]]
    assert constants() == before
    assert found[0]["ratios"] != {n: each["ratio"] for n, each in REPORT["rows"][0]["configurations"].items()}


def test_the_loop_says_what_the_configuration_does():
    plain, shared = (
        hopper_model.loop_of(CONFIGURATIONS[name], 128) for name in ("plain", "shared_p_overlap")
    )

    assert (plain.rows, plain.keys, plain.stages, plain.overlaps) == (128, 64, 2, False)
    assert plain.operand_bytes == 128 * 128 * 2  # Q
    assert shared.overlaps
    assert shared.operand_bytes == 128 * (128 + 96) * 2  # Q and P


def test_a_file_without_times_is_named(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps({"date": "2026-11-21", "rows": []}))

    with pytest.raises(UsageError, match="holds no times"):
        hopper_model.read_measured(path)
