"""scripts/model/record_space.py without a GPU: what it prepares, and what its files hold for the model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evoflash.kernels.family import load_family
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import parse_workload
from evoflash.perf_model.estimate import Counts, Profile, estimate
from evoflash.space import Check, Param, SearchSpace
from evoflash.specs import load_gpu
from scripts import ROOT
from scripts.model import record_space, space_file
from scripts.model import report as model_report

SMALL = "b=1,h=1,s=64,d=64"
SEED = {"warps": 4, "rows_per_warp": 16, "block_n": 32, "waits": "joint", "k_stages": 2}
BROKEN = {"warps": 8, "rows_per_warp": 32, "block_n": 128, "waits": "joint", "k_stages": 4}


def _record(tmp_path: Path, *arguments: str) -> tuple[dict[str, Any], list[str]]:
    path = tmp_path / "space.json"
    command = [
        sys.executable,
        "-m",
        "scripts.model.record_space",
        "--dry-run",
        "--workers",
        "1",
        "-o",
        str(path),
    ]
    subprocess.run([*command, "--problem", SMALL, *arguments], cwd=ROOT, check=True, capture_output=True)
    text = path.read_text()
    return json.loads(text), text.splitlines()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[str]]:
    folder = tmp_path_factory.mktemp("space")
    genomes = folder / "genomes.json"
    genomes.write_text(json.dumps([SEED, BROKEN]))
    return _record(folder, "--family", "flash_mma", "--genomes", str(genomes))


def test_a_file_holds_all_that_the_model_reads(prepared):
    document, _ = prepared
    row = next(row for row in document["genomes"] if row["values"]["k_stages"] == 2)
    work, gpu, family = parse_workload(SMALL), load_gpu("h200"), load_family("flash_mma")
    genome = family.space((work.compile_key(gpu.arch),), gpu).genome(SEED)
    (launch,) = (
        LaunchConfig(**{name: tuple(x) if isinstance(x, list) else x for name, x in each.items()})
        for each in row["launches"]
    )
    found = estimate(
        space_file.read_profile(row["profile"]), (launch,), work, gpu, registers=row["registers"]
    )

    assert (launch,) == family.launches(genome, work, gpu)
    assert (row["id"], row["status"]) == (genome.id, "correct")
    assert 32 <= row["registers"] <= 255
    assert found.terms["tensor"] > 0
    assert "hot_us" not in row


def test_a_genome_that_fails_its_checks_is_recorded_with_the_reason(prepared):
    document, _ = prepared
    row = next(row for row in document["genomes"] if row["values"]["k_stages"] == 4)

    assert row["status"] == "constraints"
    assert "regs_fit" in row["reason"]
    assert "profile" not in row


def test_a_file_says_what_it_is_and_gives_each_genome_a_line(prepared):
    document, lines = prepared

    assert document["genomes_asked"] == 2
    assert document["genomes_timed"] == 0
    assert document["gpu"] == "h200"
    assert sum('"values"' in line for line in lines) == 2


def test_at_the_time_limit_what_is_known_is_written(tmp_path):
    document, _ = _record(tmp_path, "--family", "flash_mma", "--count", "40", "--time-limit", "0.1")

    assert document["genomes_asked"] == 40
    assert len(document["genomes"]) < 40


def test_a_sample_is_distinct_and_the_same_for_a_seed():
    space = SearchSpace(
        "f", (Param("x", tuple(range(50))),), checks=(Check("even", lambda v: v["x"] % 2 == 0),)
    )
    first, again, other = (record_space.sampled(space, count=10, seed=seed) for seed in (1, 1, 2))

    assert first == again != other
    assert len(set(first)) == 10
    assert len(record_space.sampled(space, count=100, seed=1)) == 25  # all that there are


def test_a_profile_comes_back_from_its_record():
    counts = Counts({"mma": 1.25, "ex2": 0.0}, {"mma": 3.0})
    profile = Profile((counts, Counts({"ldg": 4.0}, {})), rows=64, keys=32, stages=2, splits=4, uncounted=7.0)
    record = json.loads(json.dumps(space_file.profile_record(profile)))

    assert space_file.read_profile(record).launches[0].fixed == {"mma": 1.25}
    assert space_file.read_profile(record).splits == 4
    assert space_file.profile_record(space_file.read_profile(record)) == record


# ---- scripts/model/report.py


def _space(tmp_path: Path, prepared: dict[str, Any], times_us: list[float]) -> Any:
    """A recorded space of copies of one genome, with ever more steps' work, and these times."""
    row = next(row for row in prepared["genomes"] if "profile" in row)
    genomes = []
    for at, us in enumerate(times_us):
        (counts,) = row["profile"]["launches"]
        heavier = {name: n * (1 + at) for name, n in counts["per_step"].items()}
        profile = {**row["profile"], "launches": [{**counts, "per_step": heavier}]}
        genomes.append({**row, "profile": profile, "hot_us": [us], "cold_us": []})
    path = tmp_path / "space.json"
    path.write_text(json.dumps({**prepared, "genomes": genomes}))
    return model_report.read_space(path)


def test_the_report_ranks_as_the_times_do_or_says_that_it_does_not(tmp_path, prepared):
    rising, falling = (
        model_report.compared(_space(tmp_path, prepared[0], times))
        for times in ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0])
    )

    assert (rising["kendall_tau"], rising["rank_of_true_best"]) == (1, 1)
    assert (falling["kendall_tau"], falling["rank_of_true_best"]) == (-1, 4)


def test_a_fit_brings_estimates_nearer_to_the_times(tmp_path, prepared, monkeypatch):
    table = dict(model_report.constants())
    monkeypatch.setattr(model_report, "constants", lambda: table)
    monkeypatch.setattr("evoflash.perf_model.estimate.constants", lambda: table)
    space = _space(tmp_path, prepared[0], [20.0, 21.0, 22.0, 23.0])
    before = abs(np.log(model_report.compared(space)["ratio"]))

    table.update(model_report.fit([space], ["launch_us"]))

    assert table["launch_us"] > 5
    assert abs(np.log(model_report.compared(space)["ratio"])) < 0.2 * before


def test_kendalls_tau_counts_pairs_that_agree_against_those_that_do_not():
    assert model_report.kendall_tau(np.array([1, 2, 3]), np.array([1, 3, 2])) == pytest.approx(1 / 3)
