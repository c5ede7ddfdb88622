"""Runs requests on the GPUs of this machine, several at once, and packs what they leave. Needs Python alone.

    python3 -m scripts.device.batch --call 1 --seconds 570    # there, in one call of at most ten minutes

requests.toml lists the requests and says what its fields mean. Those that want more GPUs begin first, then
the longest. Each has its GPUs, a share of the cores for each of them, a home and caches of its own, a limit,
and its output in out.txt; at its end, or at the deadline, all of its processes are ended. Packs and trees
from .dev/ (prepare.py) are unpacked once and stay while the machine is held. Results are one tar in $OUT.
"""

import argparse
import io
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scripts import ROOT

_MARK = "DEVICE_REQUEST"  # in the environment of each process of a request, whatever session it is in
_COMMON = {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
_GRACE_S = 3.0  # from the first signal to the one that cannot be caught
_PACKING_S = 12.0
_LARGEST = 16 << 20  # bytes of a file that comes back
_LEAST_SHARE = 0.5  # of a request's seconds: with less time than that left it is not begun


@dataclass(frozen=True, slots=True)
class Request:
    """A row of requests.toml, where the fields are explained."""

    name: str
    command: str
    seconds: float
    why: str = ""
    prediction: str = ""
    call: int = 0
    gpus: int = 1
    needs: tuple[str, ...] = ()


@dataclass(slots=True)
class Run:
    """A request that was begun, or will not be: then `how` says why."""

    request: Request
    folder: Path
    gpus: tuple[str, ...] = ()
    limit_s: float = 0.0
    how: str = ""
    began_s: float = 0.0
    process: subprocess.Popen[bytes] | None = None

    def line(self) -> str:
        """How it ended, and the last thing that it said."""
        text = (self.folder / "out.txt").read_text("utf-8", "replace") if self.gpus else ""
        took_s = time.monotonic() - self.began_s if self.gpus else 0.0
        last = (text.strip().splitlines() or [""])[-1][:160]
        return f"{self.request.name:36} {self.how:18} {took_s:4.0f} s  GPU {','.join(self.gpus):7} {last}"


def requests_of(file: Path) -> list[Request]:
    """Those of a file; one with `rows` is a request for each, whose name and command say the row."""
    found = []
    for table in tomllib.loads(file.read_text(encoding="utf-8"))["request"]:
        needs, name = tuple(table.pop("needs", ())), table.pop("name")
        for row in table.pop("rows", [""]):
            short = "".join("-" if each == "," else each for each in row if each not in ":=")
            own = {**table, "command": table["command"].replace("{row}", row)}
            found.append(Request(name=f"{name}-{short}".rstrip("-"), needs=needs, **own))
    return found


def unpack(packs: Path, base: Path, pool: ThreadPoolExecutor) -> dict[str, "Future[Path]"]:
    """Each archive whose parts are all here or came with an earlier call of this machine, unpacked once."""
    (base / "parts").mkdir(parents=True, exist_ok=True)
    for file in packs.glob("*.*of*"):
        shutil.copy(file, base / "parts")
    found = {}
    for first in (base / "parts").glob("*.1of*"):
        count = int(first.suffix.rpartition("of")[2])
        parts = [first.with_suffix(f".{number}of{count}") for number in range(1, count + 1)]
        if all(each.exists() for each in parts):
            found[first.stem] = pool.submit(_unpacked, parts, base / "packs" / first.stem)
    return found


def _unpacked(parts: Sequence[Path], folder: Path) -> Path:
    if not folder.exists():
        whole = io.BytesIO(b"".join(part.read_bytes() for part in parts))
        unfinished = folder.with_name(f"unfinished-{folder.name}")
        with lzma.open(whole) as file, tarfile.open(fileobj=file, mode="r|") as tar:
            tar.extractall(unfinished, filter="data")
        compile_all(unfinished)
        unfinished.rename(folder)
    return folder


def compile_all(folder: Path) -> None:
    """Else each of many processes compiles what it imports, seconds each."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "8", folder], capture_output=True)


def processes_of(request: Request) -> list[int]:
    """Those that it began and that still live, in other sessions too."""
    mark, found = f"{_MARK}={request.name}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def end_all(request: Request, with_signal: int) -> None:
    """Signal every process of a request."""
    for pid in processes_of(request):
        with suppress(ProcessLookupError):
            os.kill(pid, with_signal)


def start(run: Run, cores: Sequence[int], packs: Sequence[Path], base: Path) -> None:
    """Begin it in its folder; a tree among its packs takes the place of this checkout."""
    shutil.rmtree(run.folder, ignore_errors=True)
    (run.folder / "home").mkdir(parents=True)
    (run.folder / "out").mkdir()
    tree = next((each for each in packs if (each / "evoflash").is_dir()), ROOT)
    libraries = [str(each) for pack in packs for each in pack.glob("nvidia/*/lib")]
    folders = [each for pack in packs for each in (pack, *pack.glob("*/dsl_packages"))]  # else a .pth's work
    own = {
        _MARK: run.request.name,
        "CUDA_VISIBLE_DEVICES": ",".join(run.gpus),
        "OUT": str(run.folder / "out"),
        "HOME": str(run.folder / "home"),
        "PYTHONPATH": ":".join(map(str, [tree, *folders])),
        "LD_LIBRARY_PATH": ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")]).strip(":"),
        "EVOFLASH_DB": str(run.folder / "out" / "evoflash.db"),
        "EVOFLASH_CACHE_DIR": str(run.folder / "home" / "cache"),
        "FLASHINFER_WORKSPACE_BASE": str(base),  # what it compiles serves all
    }
    words = ["taskset", "-c", ",".join(map(str, cores)), "bash", "-c", run.request.command]
    run.began_s = time.monotonic()
    with (run.folder / "out.txt").open("wb") as out:
        env, nothing = {**os.environ, **_COMMON, **own}, subprocess.DEVNULL
        run.process = subprocess.Popen(words, cwd=tree, env=env, stdin=nothing, stdout=out, stderr=out)


def has_ended(run: Run) -> bool:
    """Told to end where its time is over; nothing that it began is left after its end."""
    assert run.process
    over_s = time.monotonic() - run.began_s - run.limit_s
    if run.process.poll() is None and over_s < _GRACE_S:
        if over_s >= 0 and not run.how:
            run.how = f"cut at {run.limit_s:.3g} s"
            end_all(run.request, signal.SIGTERM)
        return False
    end_all(run.request, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        run.process.wait(_GRACE_S)
    run.how = run.how or (f"exit code {run.process.returncode}" if run.process.returncode else "ok")
    return True


def run_all(
    requests: Sequence[Request],
    cores: Mapping[str, Sequence[int]],
    packs: Mapping[str, "Future[Path]"],
    base: Path,
    until_s: float,
) -> Iterator[Run]:
    """Each request's run as it ends; all have ended by `until_s` of the monotonic clock."""
    waiting = sorted(requests, key=lambda each: (-each.gpus, -each.seconds))
    free, running = list(cores), list[Run]()
    while waiting or running:
        for run in [each for each in running if has_ended(each)]:
            running.remove(run)
            if not processes_of(run.request):  # else its GPUs hang, and serve nobody any more
                free += run.gpus
            yield run
        left_s = until_s - time.monotonic() - _GRACE_S
        most = len(free) + sum(len(each.gpus) for each in running)
        for request in list(waiting):
            run = Run(request, base / "requests" / request.name)
            needs = [packs.get(name) for name in request.needs]
            if not all(made and not (made.done() and made.exception()) for made in needs):
                run.how = f"lacks {'/'.join(sorted({*request.needs} - {*packs})) or 'a whole pack'}"
            elif request.gpus > most or left_s < _LEAST_SHARE * request.seconds:
                run.how = "not begun"
            elif len(free) < request.gpus or not all(made and made.done() for made in needs):
                continue
            waiting.remove(request)
            if run.how:
                yield run
                continue
            run.gpus, free = tuple(free[: request.gpus]), free[request.gpus :]
            run.limit_s = min(request.seconds, left_s)
            own = [core for gpu in run.gpus for core in cores[gpu]]
            start(run, own, [made.result() for made in needs if made], base)
            running.append(run)
        time.sleep(0.05)


def write_results(folders: Sequence[Path], target: Path, *, largest: int = _LARGEST) -> list[str]:
    """One tar of files that xz has compressed, the smallest first; returns what did not fit."""
    inside = [file for each in folders for file in (each / "out.txt", *(each / "out").rglob("*"))]
    regular = [file for file in inside if file.is_file() and not file.is_symlink()]
    files = [file for file in regular if file.stat().st_size < 16 * largest]  # more would not be done in time
    with ThreadPoolExecutor() as pool:
        packed = pool.map(lambda file: lzma.compress(file.read_bytes(), preset=2), files)
    left, size = [str(file) for file in regular if file not in files], tarfile.RECORDSIZE
    with tarfile.open(target, "w") as tar:
        for file, data in sorted(zip(files, packed, strict=True), key=lambda pair: len(pair[1])):
            entry = tarfile.TarInfo(f"{file.relative_to(folders[0].parent)}.xz")
            entry.size = len(data)
            size += len(data) + 4 * tarfile.BLOCKSIZE  # its head, a long name, what fills its last block
            if size > largest:
                left.append(entry.name)
            else:
                tar.addfile(entry, io.BytesIO(data))
    return left


def main() -> None:
    """Parse, run, pack; a line for each request."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--call", type=int, help="requests of this call; default: all")
    parser.add_argument("--only", default="", help="beginnings of names, commas between")
    parser.add_argument("--requests", type=Path, default=Path(__file__).parent / "requests.toml")
    parser.add_argument("--seconds", type=float, default=570.0, help="until everything has ended")
    parser.add_argument("--gpus", help="as 0,1; default: those of nvidia-smi")
    parser.add_argument("--packs", type=Path, default=ROOT / ".dev")
    parser.add_argument("--base", type=Path, default=Path("/tmp/dev"), help="where to unpack and run")
    parser.add_argument("--out", type=Path, default=os.environ.get("OUT", "."))
    given = parser.parse_args()
    until_s = time.monotonic() + given.seconds - _PACKING_S
    names = tuple(given.only.split(","))
    found = [x for x in requests_of(given.requests) if x.name.startswith(names)]
    listed = (line.split()[1].strip(":") for line in os.popen("nvidia-smi -L"))
    gpus = given.gpus.split(",") if given.gpus else list(listed)
    here = sorted(os.sched_getaffinity(0))
    share = max(1, len(here) // len(gpus))
    cores = {gpu: here[at * share :][:share] or here for at, gpu in enumerate(gpus)}
    lines, folders = [], []
    with ThreadPoolExecutor() as pool:
        packs = unpack(given.packs, given.base, pool)
        if not given.gpus:  # a batch that is tried elsewhere does without
            compile_all(ROOT / "evoflash")
        chosen = [x for x in found if given.call in (None, x.call)]
        for run in run_all(chosen, cores, packs, given.base, until_s):
            lines.append(run.line())
            folders += [run.folder] if run.gpus else []
            print(lines[-1], flush=True)
    left = write_results(folders, given.out / "results.tar")
    (given.out / "summary.txt").write_text("\n".join([*lines, *(f"did not fit: {x}" for x in left), ""]))


if __name__ == "__main__":
    main()
