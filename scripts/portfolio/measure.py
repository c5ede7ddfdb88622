"""A portfolio measured on this machine's GPU, and its exported package tried where evoflash is not.

    python -m scripts.portfolio.measure -o scripts/portfolio/records/serving-mix-h200.json

Runs `evoflash portfolio` on the shipped mix of 24 shapes, then in_package.py on the package that it wrote, in
a Python process with no way to import evoflash (`-I`, no PYTHONPATH, another working directory). The folder
of the output also gets the regret table, which --table of `evoflash portfolio` chooses again from.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from evoflash.gpu.timing.noise_floor import environment
from scripts.command_line import command

ROOT = Path(__file__).parents[2]
MIX = ROOT / "docs" / "examples" / "serving-mix.txt"
LIMIT_S = 900


def chosen(given: argparse.Namespace, table: Path, package: Path) -> tuple[dict[str, Any], float]:
    """What `evoflash portfolio --json` says, and the seconds that it took."""
    words = [sys.executable, "-m", "evoflash", "portfolio", "--problems", str(given.problems), "--json"]
    words += ["--kernels", str(given.kernels), "--candidates", str(given.candidates)]
    words += ["--minutes", str(given.minutes), "--table", str(table), "--export", str(package)]
    words += ["--gpu", given.gpu] if given.gpu else []
    words += ["--db", str(package.with_name("none.db")) if given.db is None else given.db]
    began = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, timeout=LIMIT_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found, time.monotonic() - began


def tried(package: Path, out: Path, *, rehearse: bool) -> dict[str, Any]:
    """What in_package.py found; empty where it ended before it wrote anything."""
    script = Path(__file__).with_name("in_package.py")
    words = [sys.executable, "-I", str(script), str(package), str(out), *(["--rehearse"] if rehearse else [])]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(words, cwd=package.parent, env=kept, timeout=LIMIT_S, check=False)
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return found


def main() -> None:
    """Choose, export, try, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--problems", type=Path, default=MIX)
    parser.add_argument("--kernels", type=int, default=4)
    parser.add_argument("--candidates", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=2.5)
    parser.add_argument("--gpu", help="Of `evoflash portfolio`; default: the one present.")
    parser.add_argument("--db", help="A database with kernels of one's own; default: the archive alone.")
    parser.add_argument(
        "--rehearse", action="store_true", help="Try the package on the CPU: PyTorch computes."
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        package = Path(name) / "fast_attention"
        table = given.output.with_name(f"{given.output.stem}-table.json")
        found, took_s = chosen(given, table, package)
        parts = {
            "portfolio": found,
            "package": tried(package, Path(name) / "found.json", rehearse=given.rehearse),
        }
    head = {"command": command(), "environment": environment(), "portfolio_s": round(took_s, 1)}
    given.output.write_text(json.dumps({**head, **parts}, indent=1) + "\n", encoding="utf-8")
    print(said(found, parts["package"], took_s))


def said(found: dict[str, Any], package: dict[str, Any], took_s: float) -> str:
    """The figures that the acceptance asks for."""
    borders = [each["regret"] for each in found["borders"] if each["regret"] is not None]
    lines = [
        f"{len(found['kernels'])} kernels of {found['candidates']} for {len(found['shapes'])} shapes on "
        f"{found['gpu']}, {found['basis']}, {took_s:.0f} s",
        f"mean regret {found['mean_regret']:.2%} by weight, {found['plain_mean_regret']:.2%} of all alike",
        f"worst regret {found['worst_regret']:.2%}; weight without a kernel {found['uncovered']:.1%}",
        f"{len(borders)} shapes at borders timed, at most {max(borders, default=0.0):.2%} above the best",
    ]
    if not package:
        return "\n".join([*lines, "package: not tried to the end, see above"])
    wrong = [each["problem"] for each in package["shapes"] if not each["is_right"]]
    figures = ("decision_us", "first_decision_us", "lookup_us", "call_us", "member_call_us")
    costs = ", ".join(f"{name} {package[name]:.2f}" for name in figures if package[name])
    return "\n".join([*lines, f"package: {len(package['shapes'])} shapes, wrong: {wrong or 'none'}", costs])


if __name__ == "__main__":
    main()
