"""Traces which modules a proposal crosses, from the command to its stored row. Changes and times nothing.

    python -m scripts.proposal_path                         # in the emulator, for an l4
    python -m scripts.proposal_path --gpu h100              # on the GPU that is here
    python -m scripts.proposal_path --tree ../old-checkout  # of another one

A search of a few evaluations runs as a user would start it. Every Python process that it starts is profiled:
a module counts once a function of it is called; importing it does not count. Two counts are printed: of the
whole command, and of one proposal in the middle of the search: what is called from one stored row until the
next. As several proposals are under way at a time, that has every step of the way.
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

ROOT = os.environ["EVOFLASH_TRACE_ROOT"] + os.sep + "evoflash" + os.sep
FOLDER = os.environ["EVOFLASH_TRACE_FOLDER"]
names, seen, lock = {}, {}, threading.Lock()
out = None

def write(line):
    global out
    with lock:
        if out is None:
            out = open(os.path.join(FOLDER, f"{os.getpid()}.txt"), "a", buffering=1)
        out.write(line + "\\n")

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
            "EVOFLASH_TRACE_ROOT": str(tree),
            "EVOFLASH_TRACE_FOLDER": str(notes),
        }
        subprocess.run(command, cwd=tree, env={**os.environ, **own}, check=True)
        lines = [line for file in notes.iterdir() for line in file.read_text(encoding="utf-8").splitlines()]
    calls = (line.split(" ", 1) for line in lines)
    return sorted((float(at), name) for at, name in calls)


def crossed(calls: Iterable[tuple[float, str]]) -> list[str]:
    """The modules that were called, in the order of their first call."""
    return list(dict.fromkeys(name for _, name in calls if not name.startswith("=")))


def between_rows(calls: list[tuple[float, str]], row: int) -> list[tuple[float, str]]:
    """The calls after a row was stored until the next one was."""
    stored = [at for at, name in calls if name.startswith("=")]
    begin, end = stored[row - 1 : row + 1]
    return [call for call in calls if begin < call[0] <= end]


def main() -> None:
    """Print the two counts and the modules of one proposal."""
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
    stored = sum(name.startswith("=") for _, name in calls)
    whole, one = crossed(calls), crossed(between_rows(calls, stored // 2))
    print(f"evoflash search {' '.join(words)}: {len(whole)} modules, one proposal of it {len(one)}:")
    print("\n".join(one))
    if options.output:
        record = {"command": ["evoflash", "search", *words], "whole": whole, "one_proposal": one}
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
