"""Runs OpenEvolve itself on proposals that are kept, and says which program it ends with.

    python -m scripts.peers.through_openevolve [-o RECORD]      (pip install openevolve==0.4.1)

A server on the loopback answers OpenEvolve's chat requests with twenty proposals, one after the other; its
evaluator is docs/examples/openevolve_evaluator.py as it stands. One of the twenty is right. Ends
with 1 unless that one is the best, and each other has a score of 0.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripts.records import command, write_record

ROOT = Path(__file__).resolve().parents[2]
EVALUATOR = ROOT / "docs" / "examples" / "openevolve_evaluator.py"
KERNELS = ROOT / "tests" / "app" / "judge" / "test_foreign.toml"
_AT = 11  # of the proposals, where the right one comes
_TABLE = "test_each_kernel_has_the_verdict_that_it_must"


def proposals() -> tuple[str, list[str]]:
    """The kernel to begin with, which is wrong, and twenty others, of which one is right."""
    table = tomllib.loads(KERNELS.read_text(encoding="utf-8"))
    texts = []
    for row in table[_TABLE]:
        if row["status"] == "correct" or row["id"] == "never ends":
            continue
        text = table["attention"] if row.get("base") else table["frame"].replace("BODY", row.get("body", ""))
        text = text.replace('#include "ef.h"\n', f'#include "ef.h"\n{row.get("above", "")}\n')
        for old, new in row.get("edits", ()):
            text = text.replace(old, new)
        texts.append(text.strip())
    first, *wrong = texts
    return first, [*wrong[:_AT], table["attention"].strip(), *wrong[_AT:19]]


class _Handler(BaseHTTPRequestHandler):
    """OpenAI's chat protocol, as far as OpenEvolve needs it."""

    waiting: Iterator[str]
    lock = threading.Lock()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.lock:
            text = next(self.waiting, "no more")
        message = {"role": "assistant", "content": f"```cuda\n{text}\n```"}
        said = {"id": "1", "object": "chat.completion", "created": 0, "model": "kept", "choices": [
            {"index": 0, "message": message, "finish_reason": "stop"}
        ]}  # fmt: skip
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


def evolve(folder: Path) -> dict[str, Any]:
    """What OpenEvolve ends with: its best program's text and score, and the scores of all."""
    from openevolve import OpenEvolve
    from openevolve.config import Config, LLMModelConfig

    first, kept = proposals()
    _Handler.waiting = iter(kept)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / "first.cu").write_text(first)
    config = Config()
    config.language, config.diff_based_evolution, config.max_iterations = "cuda", False, len(kept)
    config.llm.models = [
        LLMModelConfig(
            name="kept",
            api_base=f"http://127.0.0.1:{server.server_address[1]}/v1",
            api_key="none",
            timeout=60,
            retries=0,
            retry_delay=0,
            max_tokens=4096,
            temperature=0.7,
            top_p=0.9,
        )
    ]
    config.evaluator.cascade_evaluation, config.evaluator.parallel_evaluations = False, 1
    evolving = OpenEvolve(str(folder / "first.cu"), str(EVALUATOR), config, str(folder / "out"))
    best = asyncio.run(evolving.run(iterations=len(kept)))
    server.shutdown()
    programs = evolving.database.programs.values()
    right = kept[_AT]
    scores = sorted((each.metrics["combined_score"], each.code.strip() == right) for each in programs)
    return {
        "proposals": len(kept),
        "programs": len(scores),
        "best_is_right": best is not None and best.code.strip() == right,
        "best_score": best.metrics["combined_score"] if best else None,
        "scores_of_others": sorted({score for score, is_right in scores if not is_right}),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = evolve(Path(folder))
    print(json.dumps(found))
    if options.out:
        write_record(options.out, {"command": command(), **found})
    return int(not found["best_is_right"] or found["scores_of_others"] != [0.0])


if __name__ == "__main__":
    sys.exit(main())
