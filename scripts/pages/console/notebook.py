"""Runs docs/notebook.ipynb and writes its outputs into it; `--check` says whether they are stale.

    python -m scripts.pages.console.notebook [--check]

The cells are written by hand. They run in order in an empty folder with a database of their own; what may
differ between two runs (rates, seconds, dates: console/session.py) does not count.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import nbclient
import nbformat

from scripts import ROOT
from scripts.pages.console.session import comparable

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
_LIMIT_S = 300


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def executed(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of its cells, run in `folder`."""
    notebook = read(path)
    settings = {
        "EVOFLASH_DB": str(folder / "evoflash.db"),
        "PYTHONWARNINGS": "ignore:IProgress not found",  # of tqdm, about widgets that are not installed
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    with mock.patch.dict(os.environ, settings):
        client = nbclient.NotebookClient(
            notebook,
            timeout=_LIMIT_S,
            kernel_name="python3",
            coalesce_streams=True,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
    return notebook


def outputs(notebook: Any) -> list[list[str]]:
    """What each cell shows, without what may differ between two runs; streams as one text."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [_shown(cell.outputs) for cell in cells]


def _shown(found: list[Any]) -> list[str]:
    streams: dict[str, str] = {}
    for output in found:
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + output.text
    others = [json.dumps(output.get("data", {}), sort_keys=True) for output in found if "data" in output]
    errors = [output.evalue for output in found if output.output_type == "error"]
    return [comparable(text) for text in (*streams.values(), *others, *errors)]


def main() -> int:
    """1 when the notebook's outputs are stale and only to be checked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the outputs are stale")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fresh = executed(NOTEBOOK, Path(folder))
    is_stale = outputs(fresh) != outputs(read(NOTEBOOK))
    if args.check and is_stale:
        print("docs/notebook.ipynb is older than what its cells print: run scripts.pages.console.notebook.")
    elif is_stale:
        text = nbformat.writes(fresh)
        NOTEBOOK.write_text(text + "\n", encoding="utf-8")
    return int(args.check and is_stale)


if __name__ == "__main__":
    sys.exit(main())
