"""Tries on evoflash what public reports say of other tools, by public_reports.toml. It mends nothing.

    python -m scripts.validation.public_reports -o scripts/validation/records/public-reports.json

Each row is a short bash text that runs in a folder and with a database of its own: 0 says that the fault is
not here, 77 that it cannot be tried on this machine, anything else that it is here.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.records import command, write_record

REPORTS: Sequence[Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)["reports"]
LIMIT_S = 400
_UNTRIED = 77
_CONFIGURATIONS = {1: 0.1, 2: 0.2}  # of the one param a; times in ms

# What the rows may call.
_FUNCTIONS = r"""
set -uo pipefail
ends() { # exit codes with commas between, and a command
  local codes=$1; shift; "$@" >o 2>&1; code=$?
  case ",$codes," in *",$code,"*) ;; *) echo "exit $code, not $codes: $*"; tail -3 o; exit 1 ;; esac
  ! grep -q Traceback o || { cat o; exit 1; }
}
says() { grep -qi -- "$1" o || { echo "nothing says '$1'"; tail -5 o; exit 1; }; }
change() { # a JSON file, another, and what Python does with the first as d
  printf 'import json, sys\n_, old, new, text = sys.argv\nd = json.load(open(old))\nexec(text)\n' >change.py
  echo 'json.dump(d, open(new, "w"))' >>change.py; $PYTHON change.py "$@"
}
plain() { if [ "$(id -u)" = 0 ]; then setpriv --bounding-set -all --inh-caps -all "$@"; else "$@"; fi; }
kernel() { # a name and what each thread does
  printf '/* evoflash check\nentry = "%s"\ngrid = 2\nblock = 64\narguments = [\n' "$1"
  printf '  { name = "x", dtype = "f32", shape = [2, 64] },\n'
  printf '  { name = "y", dtype = "f32", shape = [2, 64], out = true },\n]\n*/\n#include "ef.h"\n'
  printf 'extern "C" __global__ void __launch_bounds__(64) %s(const float* x, float* y) {\n' "$1"
  printf '  const int i = blockIdx.x * 64 + threadIdx.x;\n  %s\n}\nEF_EXPORT_KERNEL(%s)\n' "$2" "$1"
}
"""


def tried(report: Mapping[str, Any]) -> dict[str, Any]:
    """What became of a row: whether it holds (None: cannot be tried), how long it ran, what it said."""
    folder = Path(tempfile.mkdtemp(prefix="evoflash-report-"))
    try:
        started = time.monotonic()
        done = subprocess.run(
            ["bash", "-c", _FUNCTIONS + report["run"]],
            cwd=folder,
            env=_variables(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
        code, said = done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        code, said = 124, f"it hung for {LIMIT_S} s"
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
    is_here = None if code == _UNTRIED else code == 0
    words = said.replace(str(folder), "FOLDER").strip()[-600:] if code else ""
    return {"holds": is_here, "seconds": round(time.monotonic() - started, 1), "said": words}


def _variables(folder: Path) -> dict[str, str]:
    cache: dict[str, Any] = {"device_name": "X", "kernel_name": "k", "problem_size": [8], "objective": "time"}
    cache |= {"tune_params_keys": ["a"], "tune_params": {"a": list(_CONFIGURATIONS)}}
    entries = {str(a): {"a": a, "time": ms, "times": [ms, ms]} for a, ms in _CONFIGURATIONS.items()}
    results = [
        {"configuration": {"a": a}, "objectives": ["time"], "times": {}, "invalidity": "correct"}
        | {"correctness": 1, "measurements": [{"name": "time", "value": ms, "unit": "ms"}]}
        for a, ms in _CONFIGURATIONS.items()
    ]
    broken = entries | {"1": {"a": 1, "time": float("inf"), "times": [float("nan")]}}
    files = {
        "KT": cache | {"cache": entries},
        "BROKEN": cache | {"cache": broken},
        "T4": {"schema_version": "1.0.0", "metadata": {"timeunit": "ms"}, "results": results},
    }
    paths = {name: folder / f"{name}.json" for name in files}
    for name, path in paths.items():
        path.write_text(json.dumps(files[name]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EVOFLASH_")}
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("DATA", "STATE", "CONFIG")}
    return {
        **kept,
        **homes,
        **{name: str(path) for name, path in paths.items()},
        "EVOFLASH": f"{sys.executable} -m evoflash",
        "PYTHON": sys.executable,
        "F": "--family flash_simt --gpu l4 --problem b=1,h=2,s=64,d=64",
        "REPLAY": f"--evaluator replay --recorded {paths['KT']} --budget 2",
        "REPLAY_BROKEN": f"--evaluator replay --recorded {paths['BROKEN']} --budget 2",
        "NO_COLOR": "1",
    }


def main() -> None:
    """Try all, or those that are named, and write what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="only these rows")
    parser.add_argument("-o", "--output", type=Path)
    wanted = parser.parse_args()
    outcomes: dict[str, dict[str, Any]] = {}
    for report in REPORTS:
        if not wanted.ids or report["id"] in wanted.ids:
            outcomes[report["id"]] = {"of": report["of"], **tried(report)}
            found = outcomes[report["id"]]
            print(found["holds"], report["id"], found["seconds"], "s", found["said"], flush=True)
    if wanted.output:
        write_record(wanted.output, {"command": command(), "reports": outcomes})
    sys.exit(any(each["holds"] is False for each in outcomes.values()))


if __name__ == "__main__":
    main()
