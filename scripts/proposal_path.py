"""Traces which modules a proposal crosses, from the command to its stored row. Changes and times nothing.

    python -m scripts.proposal_path                         # in the emulator, for an l4
    python -m scripts.proposal_path --gpu h100              # on the GPU that is here
    python -m scripts.proposal_path --tree ../old-checkout  # of another one

A search of a few evaluations runs as a user would start it. Every Python process that it starts is profiled:
a module counts once a function of it is called; importing it does not count. Three counts are printed: of the
whole command, of the command until the first row is stored, and of the loop, which is what is called from the
first stored row to the last one: every step of a proposal's way, as several are under way at a time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from scripts import ROOT

# Python runs a sitecustomize.py that it finds on its path, in every process, before the program.
_PROFILER = """
import os, sys, threading, time

ROOT = os.environ["TRACE_ROOT"] + os.sep + "evoflash" + os.sep
FOLDER = os.environ["TRACE_FOLDER"]
names, seen = {}, {}
out = None

def write(line):  # without a lock: a process may be forked while another thread is in here
    global out
    if out is None:
        out = os.open(os.path.join(FOLDER, f"{os.getpid()}.txt"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, f"{line}\\n".encode())

def profile(frame, event, argument):
    if event not in ("call", "return"):
        return
    code = frame.f_code
    path = code.co_filename
    name = names.get(path)
    if name is None:
        name = names[path] = path[len(ROOT):-3].replace(os.sep, ".") if path.startswith(ROOT) else ""
    if not name or code.co_name == "<module>":
        return
    now = time.time()
    if event == "return":
        if code.co_name == "add" and name == "store.store":
            write(f"{now} = stored")
        return
    if now - seen.get(name, 0.0) > 0.002:
        seen[name] = now
        write(f"{now} {name}")

def begin():
    global out
    out = None
    sys.setprofile(profile)

os.register_at_fork(after_in_child=begin)
threading.setprofile(profile)
sys.setprofile(profile)
"""


def traced_calls(tree: Path, words: Iterable[str]) -> list[tuple[float, str]]:
    """(seconds, module) of the calls in all processes, in their order; "= stored" marks a stored row."""
    with tempfile.TemporaryDirectory() as place:
        hook, notes = Path(place, "hook"), Path(place, "notes")
        hook.mkdir()
        notes.mkdir()
        (hook / "sitecustomize.py").write_text(_PROFILER, encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "evoflash",
            "search",
            *words,
            "--db",
            str(Path(place, "a.db")),
            "--quiet",
        ]
        paths = [str(hook), str(tree), os.environ.get("PYTHONPATH", "")]
        own = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "TRACE_ROOT": str(tree),
            "TRACE_FOLDER": str(notes),
        }
        subprocess.run(command, cwd=tree, env={**os.environ, **own}, check=True)
        lines = [line for file in notes.iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    calls = (line.split(" ", 1) for line in lines)
    return sorted((float(at), name) for at, name in calls)


def crossed(calls: Iterable[tuple[float, str]]) -> list[str]:
    """The modules that were called, in the order of their first call."""
    return list(dict.fromkeys(name for _, name in calls if not name.startswith("=")))


def until_first_row(calls: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The calls from the command to the first stored row."""
    first, *_ = _stored(calls)
    return [call for call in calls if call[0] <= first]


def in_the_loop(calls: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """The calls from the first stored row to the last one."""
    first, *_, last = _stored(calls)
    return [call for call in calls if first < call[0] <= last]


def _stored(calls: Iterable[tuple[float, str]]) -> list[float]:
    return [at for at, name in calls if name.startswith("=")]


def main() -> None:
    """Print the three counts and the modules of the loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--gpu", help="search on this GPU, which is here; without it the emulator works for an l4"
    )
    parser.add_argument("--family", default="flash_mma", help="of the kernels that are proposed")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to trace")
    parser.add_argument("-o", "--output", type=Path, help="also write a record")
    options = parser.parse_args()
    where = ["--gpu", options.gpu] if options.gpu else ["--gpu", "l4", "--evaluator", "emulated"]
    words = [*where, "--family", options.family, "--no-archive", "--budget", "12"]
    calls = traced_calls(options.tree.resolve(), words)
    ways = {
        "whole command": crossed(calls),
        "until the first stored row": crossed(until_first_row(calls)),
        "from the first stored row to the last": crossed(in_the_loop(calls)),
    }
    print(f"evoflash search {' '.join(words)}:")
    print("\n".join(f"{len(modules)} modules, {way}" for way, modules in ways.items()))
    print("\n".join(crossed(in_the_loop(calls))))
    if options.output:
        record = {"command": ["evoflash", "search", *words], "modules": ways}
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
