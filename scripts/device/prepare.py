"""Packs what the lent machine lacks into .dev/, for `carry`, and unpacks what came back. Runs nothing.

    python -m scripts.device.prepare                            # what there is, and what a call has room for
    python -m scripts.device.prepare base fa3 --tree 60b35c23   # packs of packs.toml; a commit as a pack
    python -m scripts.device.prepare --collect FOLDER           # files_at of a call's reply, to .dev/results

A pack is a folder for PYTHONPATH, compressed: wheels for that machine's Python, of which packs.toml leaves
out what no request needs. One that is too large for a call lies in parts, which several calls of one held
machine may bring.
"""

import argparse
import io
import lzma
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from scripts import ROOT

_FOLDER = ROOT / ".dev"
_CARRIED = 64 << 20  # bytes of the working tree and of what is carried
_PART = 36_000_000  # bytes: with the tree and a small pack or two beside it
_LZMA = {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 256 << 20}
# Addresses of calls in x86 code become alike before LZMA looks for what is alike: a sixth less.
_FOR_X86: list[Mapping[str, Any]] = [{"id": lzma.FILTER_X86}, {**_LZMA, "lc": 0, "pb": 0}]


def members(wheel: Path, take: Sequence[str], leave: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel that are wanted, by shell patterns of their names."""
    with zipfile.ZipFile(wheel) as file:
        for name in file.namelist():
            wanted = any(fnmatch(name, each) for each in take)
            if wanted and not any(fnmatch(name, each) for each in (*leave, "*/")):
                yield name, file.read(name)


def pack(files: Iterable[tuple[str, bytes]], folder: Path, name: str, *, is_x86: bool = False) -> list[Path]:
    """In as few parts as each fits beside the tree; earlier ones of that name go."""
    packed = io.BytesIO()
    filters = _FOR_X86 if is_x86 else [_LZMA]
    with lzma.open(packed, "wb", filters=filters) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        for path, data in files:
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    for old in folder.glob(f"{name}.*of*"):
        old.unlink()
    count = -(-packed.tell() // _PART)
    parts = [folder / f"{name}.{number}of{count}" for number in range(1, count + 1)]
    for at, part in enumerate(parts):
        size = -(-packed.tell() // count)
        part.write_bytes(packed.getbuffer()[at * size : (at + 1) * size])
    return parts


def fetched(wheels: Sequence[str], machine: Mapping[str, Any], folder: Path) -> list[Path]:
    """Wheels for that machine, by pip, in a folder that has no others."""
    shutil.rmtree(folder, ignore_errors=True)
    how = ["--no-deps", "--only-binary=:all:", "--implementation=cp", f"--python-version={machine['python']}"]
    how += [f"--platform={each}_x86_64" for each in machine["platforms"]]
    how += [f"--abi={each}" for each in machine["abis"]]
    command = [sys.executable, "-m", "pip", "download", "-q", *how, "-d", str(folder), *wheels]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


def tree_files(commit: str) -> Iterator[tuple[str, bytes]]:
    """A commit's files without the records of measurements."""
    spec = ["--", ".", ":(exclude,glob)**/records/**"]
    whole = subprocess.run(["git", "-C", ROOT, "archive", commit, *spec], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(whole.stdout)) as tar:
        for entry in tar:
            if data := tar.extractfile(entry):
                yield entry.name, data.read()


def collect(results: Path, target: Path) -> None:
    """What batch.py packed, as it was: a folder a request."""
    with tarfile.open(results) as tar:
        for entry in tar:
            file = (target / entry.name.removesuffix(".xz")).resolve()
            if (data := tar.extractfile(entry)) and file.is_relative_to(target.resolve()):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(lzma.decompress(data.read()))


def main() -> None:
    """Parse, pack or unpack, and say what there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("packs", nargs="*")
    parser.add_argument("--tree", action="append", default=[], help="a commit, as the pack tree-COMMIT")
    parser.add_argument("--collect", type=Path)
    given = parser.parse_args()
    _FOLDER.mkdir(exist_ok=True)
    told = tomllib.loads((Path(__file__).parent / "packs.toml").read_text(encoding="utf-8"))
    for name in given.packs:
        wanted = {"take": ["*"], "leave": [], "is_x86": False, "add": "nothing", **told["pack"][name]}
        wheels = fetched(wanted["wheels"], told["machine"], _FOLDER / "wheels" / name)
        files = [each for wheel in wheels for each in members(wheel, wanted["take"], wanted["leave"])]
        added = _FOLDER / wanted["add"]
        files += [(str(x.relative_to(added)), x.read_bytes()) for x in added.rglob("*") if x.is_file()]
        pack(files, _FOLDER, name, is_x86=wanted["is_x86"])
    for commit in given.tree:
        pack(tree_files(commit), _FOLDER, f"tree-{commit.replace('/', '-')}")
    if given.collect:
        collect(given.collect / "results.tar", _FOLDER / "results")
        print((given.collect / "summary.txt").read_text(encoding="utf-8"), end="")
    listed = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-coz", "--exclude-standard"], text=True)
    tree = sum((ROOT / each).lstat().st_size for each in set(listed.split("\0")) - {""})
    for part in sorted(_FOLDER.glob("*.*of*")):
        print(f"{part.stat().st_size / 1e6:7.1f} MB  {part.relative_to(ROOT)}")
    print(f"{tree / 1e6:7.1f} MB  the tree; room for {(_CARRIED - tree) / 1e6:.1f} MB beside it")


if __name__ == "__main__":
    main()
