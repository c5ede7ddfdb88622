"""scripts.model.record_space on a GPU: what it records was checked and timed, and the model can read it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

ROOT = Path(__file__).resolve().parents[2]


def _record(path, *arguments):
    command = [
        sys.executable,
        "-m",
        "scripts.model.record_space",
        "--count",
        "3",
        "-o",
        str(path),
        *arguments,
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    return json.loads(path.read_text())


def test_a_short_kernel_is_timed_hot_and_cold(spec, tmp_path):
    document = _record(tmp_path / "space.json", "--family", "flash_mma", "--problem", "mission")
    print("\n", [(row["status"], row.get("hot_us"), row.get("cold_us")) for row in document["genomes"]])

    assert document["gpu"] == spec.name
    assert document["genomes_timed"] == 3
    for row in document["genomes"]:
        assert row["status"] == "correct"
        assert len(row["hot_us"]) == 5
        assert len(row["cold_us"]) == 3
        assert 2 < min(row["hot_us"]) <= max(row["hot_us"]) < 1.5 * min(row["hot_us"])
        assert row["profile"]["launches"]


def test_a_slow_kernel_is_launched_few_times(spec, tmp_path):
    naive = {"warps": 1, "lanes_per_row": 1, "vec": 1, "q_home": "global", "kv_home": "global", "batch": 1}
    genomes = tmp_path / "genomes.json"
    genomes.write_text(json.dumps([naive]))
    arguments = ("--family", "flash_simt", "--problem", "s2k_d64", "--genomes", str(genomes))
    document = _record(tmp_path / "space.json", *arguments)
    (row,) = document["genomes"]
    print("\n", row["status"], row.get("hot_us"))

    assert row["status"] == "correct"
    assert len(row["hot_us"]) <= 2
    assert row["cold_us"] == []
