"""A batch with made-up GPUs on this machine, and what its packs and results go through."""

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor

from scripts import ROOT
from scripts.device.batch import processes_of, requests_of, unpack, write_results
from scripts.device.prepare import collect, pack

_REQUESTS = """
[[request]]
name = "both"
command = "echo $CUDA_VISIBLE_DEVICES; grep Cpus_allowed_list /proc/self/status"
seconds = 5
gpus = 2
[[request]]
name = "hangs"
command = "setsid sleep 60 & trap '' TERM; echo begun >$OUT/file; sleep 60"
seconds = 0.5
[[request]]
name = "fails"
command = "python -c 'import packed; print(packed.__file__)'; echo {row}; exit 3"
rows = ["linear:m=1,n=8", "b=2"]
seconds = 5
needs = ["lib"]
[[request]]
name = "lacks"
command = "echo"
seconds = 5
needs = ["fa9"]
[[request]]
name = "late"
command = "echo"
seconds = 600
"""


def test_requests_share_gpus_end_by_their_limits_and_come_back_with_all_that_they_said(tmp_path):
    (tmp_path / "requests.toml").write_text(_REQUESTS)
    (tmp_path / "out").mkdir()
    pack([("packed.py", b"")], tmp_path, "lib")
    where = {"requests": "requests.toml", "packs": ".", "base": "base", "out": "out"}
    options = [f"--{name}={tmp_path / folder}" for name, folder in where.items()]
    command = [sys.executable, "-m", "scripts.device.batch", "--gpus=0,1", "--seconds=40", *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)

    collect(tmp_path / "out" / "results.tar", tmp_path / "back")
    said = {each.parent.name: each.read_text() for each in tmp_path.glob("back/*/out.txt")}
    assert said["both"].startswith("0,1\n")
    assert said["fails-b2"].endswith("packs/lib/packed.py\nb=2\n")
    assert (tmp_path / "back/hangs/out/file").read_text() == "begun\n"
    lines = (tmp_path / "out/summary.txt").read_text().splitlines()
    assert {line[:36].strip(): line[37:55].strip() for line in lines} == {
        "both": "ok",
        "hangs": "cut at 0.5 s",
        "fails-linearm1-n8": "exit code 3",
        "fails-b2": "exit code 3",
        "lacks": "lacks fa9",
        "late": "not begun",
    }
    assert not any(map(processes_of, requests_of(tmp_path / "requests.toml")))


def test_a_pack_in_parts_is_whole_again_once_the_last_part_has_come(tmp_path, monkeypatch):
    monkeypatch.setattr("scripts.device.prepare._PART", 5000)
    first, *others = pack([("x.bin", os.urandom(9000))], tmp_path, "large")
    rest = [each.rename(tmp_path / f"later-{each.name}") for each in others]
    with ThreadPoolExecutor(1) as pool:
        assert unpack(tmp_path, tmp_path / "base", pool) == {}
        first.unlink()  # an earlier call of this machine has brought it
        for each in rest:
            each.rename(tmp_path / each.name.removeprefix("later-"))
        (found,) = unpack(tmp_path, tmp_path / "base", pool).values()
        assert (found.result() / "x.bin").stat().st_size == 9000


def test_what_does_not_fit_is_named_and_the_rest_comes_back(tmp_path):
    (tmp_path / "a" / "out").mkdir(parents=True)
    (tmp_path / "a" / "out.txt").write_text("said")
    (tmp_path / "a" / "out" / "large").write_bytes(os.urandom(40_000))
    assert write_results([tmp_path / "a"], tmp_path / "tar", largest=30_000) == ["a/out/large.xz"]
    assert (tmp_path / "tar").stat().st_size <= 30_000


def test_every_request_names_packs_that_there_are_and_fits_a_call():
    packs = tomllib.loads((ROOT / "scripts/device/packs.toml").read_text())["pack"]
    requests = requests_of(ROOT / "scripts/device/requests.toml")
    assert len({each.name for each in requests}) == len(requests)
    for each in requests:
        assert all(name in packs or name.startswith("tree-") for name in each.needs), each.name
        assert each.seconds <= 560
        assert each.gpus in (1, 2, 4)
