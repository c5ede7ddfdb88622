"""Runs the parts and writes what they found as JSON; imports PyTorch and the exports, never evoflash."""

import argparse
import importlib
import importlib.util
import json
import site
import sys
import time
import traceback
from pathlib import Path

site.addsitedir(str(Path(__file__).resolve().parent))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--parts", default="")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    if importlib.util.find_spec("evoflash") is not None:
        if not given.rehearse:
            print("evoflash can be imported here: this must be tried without it.")
            return 2
        sys.modules["evoflash"] = None  # installed for development: importing it fails from here on
    site.addsitedir(str(given.folder))
    import torch
    from cases import Cases

    cases = Cases(given.folder, rehearse=given.rehearse)
    found = {"torch": torch.__version__, "python": sys.version.split()[0], "device": cases.device_name}
    failed = []
    for part in given.parts.split(","):
        started = time.monotonic()
        try:
            found[part] = importlib.import_module(f"part_{part}").run(cases)
        except Exception:
            failed.append(part)
            found[part] = {"error": traceback.format_exc()}
            traceback.print_exc()
        took = time.monotonic() - started
        print(f"{part}: {took:.1f} s", flush=True)
        given.output.write_text(json.dumps(found), encoding="utf-8")
    bad = [
        f"{part}: {line}"
        for part, what in found.items()
        if isinstance(what, dict)
        for line in what.get("bad", [])
    ]
    print("\n".join(bad) or "nothing is wrong")
    return 1 if failed or bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
