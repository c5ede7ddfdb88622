"""The evaluate.py of a ShinkaEvolve task: `--program_path kernel.cu --results_dir DIR`.

Shinka marks what may change between `EVOLVE-BLOCK-START` and `EVOLVE-BLOCK-END`, here in `//` comments.
"""

import argparse
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("--program_path", required=True)
parser.add_argument("--results_dir", required=True)
given = parser.parse_args()
command = ["evaluate", given.program_path, "--as", "shinka", "-o", given.results_dir]
ended = subprocess.run([sys.executable, "-m", "evoflash", *command], check=False)
# 2 and 3 are verdicts, which are in correct.json; anything else is an error of the machine.
sys.exit(0 if ended.returncode in (0, 2, 3) else ended.returncode)
