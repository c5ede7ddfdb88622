"""The soak's own parts: what is planted, where it can be met, and an account that notices what is wrong."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evoflash.evaluation import Status
from evoflash.evaluators.prepare import prepare
from evoflash.isolation import IsolatedPool
from evoflash.kernels.family import load_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.paths import TEMPLATES
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from scripts.soak import account, planting
from scripts.soak.planting import ADDRESS, HANG, HOST, NAN

H200 = load_gpu("h200")
PROBLEM = parse_problem("b=1,h=1,s=64,d=64")
(KEY,) = PROBLEM.compile_keys(H200.arch)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    folder = tmp_path_factory.mktemp("planted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOFLASH_TEMPLATES", str(folder))
        names = planting.plant(folder)
        load_family.cache_clear()
        yield names
    load_family.cache_clear()


def genome_with(fault: str, family: str = "flash_simt") -> Genome:
    """The first of a family's uniform genomes whose id decides for the fault."""
    space, rng = load_family(family).space((KEY,), H200), np.random.default_rng(5)
    while True:
        genome = space.sample(rng)
        if planting.plant_of(genome.id) == fault:
            return genome


def test_every_tenth_genome_has_a_fault() -> None:
    rng = np.random.default_rng(0)
    ids = [f"{int(x):016x}" for x in rng.integers(0, 2**63, 20_000)]
    shares = [sum(planting.plant_of(each) == fault for each in ids) / len(ids) for fault in account.EXPECTED]
    assert all(0.02 < share < 0.03 for share in shares)


def test_every_shipped_family_has_its_places(families: tuple[str, ...]) -> None:
    assert set(families) == {path.name.removesuffix(".cu.j2") for path in TEMPLATES.glob("*.cu.j2")}
    with pytest.raises(ValueError, match="no header"):
        planting.planted("no template at all")


@pytest.mark.usefixtures("families")
@pytest.mark.parametrize(
    ("fault", "text"),
    [(ADDRESS, "((volatile int*)O)["), (HANG, "while (((volatile"), (NAN, "spoilt("), (HOST, "_exit(3)")],
)
@pytest.mark.parametrize("family", ["flash_simt", "flash_wmma", "flash_mma", "flash_direct", "flash_cluster"])
@pytest.mark.sample(5)
def test_a_planted_text_is_compiled_with_its_fault_and_no_other(family: str, fault: str, text: str) -> None:
    genome = genome_with(fault, family)
    candidate = render(genome, KEY, H200)
    assert text in candidate.source
    others = {"((volatile int*)O)[", "while (((volatile", "spoilt(", "_exit(3)"} - {text}
    assert not any(other in candidate.source for other in others)
    if family == "flash_simt":
        build = compile_candidate(candidate)
        assert build.ok, build.log


@pytest.mark.slow
@pytest.mark.usefixtures("families")
def test_the_emulator_meets_the_hosts_fault_and_not_those_of_the_gpu() -> None:
    with IsolatedPool(1) as pool:
        for fault in (ADDRESS, HANG, NAN):
            ending = pool.submit(prepare, genome_with(fault), PROBLEM, H200, True, 0, timeout_s=120).result()
            assert ending.value is not None
            assert ending.value.failure is None
        crashed = pool.submit(prepare, genome_with(HOST), PROBLEM, H200, True, 0, timeout_s=120).result()
    assert (crashed.status, crashed.reason) == (Status.RUNTIME, "the process ended with exit code 3")


# ---- the account

HEALTHY, BAD_ADDRESS = f"{7:08x}00000000", f"{0:08x}00000000"  # their lots


def row(genome: str, status: str = "correct", **more: object) -> account.Row:
    return {
        "genome": genome,
        "status": status,
        "rung": "done",
        "reason": "",
        "duplicate_of": None,
        "environment_json": "{}",
        **more,
    }


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "create table runs (id); insert into runs values (1);"
            "create table lineage (run_id, genome_id, position);"
            "create table evaluations (run_id, genome_id, kind, status, rung, reason, duplicate_of,"
            " environment_json);"
            f"insert into lineage values (1, '{HEALTHY}', 0), (1, '{BAD_ADDRESS}', 1);"
            "insert into evaluations values"
            f" (1, '{HEALTHY}', 'candidate', 'correct', 'done', '', null, '{{}}'),"
            f" (1, '{BAD_ADDRESS}', 'candidate', 'runtime', 'smoke', 'an illegal address', null, '{{}}');"
        )
    return path


def is_whole(database: Path, reported: list[account.Row], count: int = 2) -> bool:
    rows = account.judged(database)
    return account.is_whole(account.whole(database, rows, reported, count))


def test_a_whole_database_is_called_whole(database: Path) -> None:
    assert is_whole(database, [{"genome": HEALTHY}, {"genome": BAD_ADDRESS}])


@pytest.mark.parametrize(
    "harm",
    [
        f"delete from evaluations where genome_id = '{HEALTHY}'",
        f"delete from lineage where genome_id = '{HEALTHY}'",
        f"insert into lineage values (1, '{HEALTHY}', 2)",
        "insert into runs values (2)",
    ],
)
def test_a_lost_or_doubled_row_is_noticed(database: Path, harm: str) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute(harm)
    assert not is_whole(database, [])


def test_a_row_that_was_reported_and_is_gone_is_noticed(database: Path) -> None:
    assert not is_whole(database, [{"genome": "ffffffffffffffff"}])


def test_a_budget_that_was_overspent_is_noticed(database: Path) -> None:
    assert is_whole(database, [], count=3)
    assert not is_whole(database, [], count=1)


def test_a_planted_fault_that_slipped_through_is_judged_wrongly() -> None:
    found = account.verdicts([row(BAD_ADDRESS, "runtime"), row(BAD_ADDRESS), row(HEALTHY)])
    assert [each["status"] for each in found["planted_and_judged_wrongly"]] == ["correct"]
    assert (found["planted"], found["healthy"]) == (2, {"correct": 1})


def test_seconds_go_to_what_was_waited_for() -> None:
    """A healthy second; three for the bad one; two for the next, of which one is a stall; another command."""
    times = [(HEALTHY, 10.0), (HEALTHY, 11.0), (BAD_ADDRESS, 14.0), (HEALTHY, 16.0), (HEALTHY, 17.0)]
    reported = [{"genome": genome, "leg": "a", "at_s": at_s} for genome, at_s in times]
    reported.append({"genome": BAD_ADDRESS, "leg": "b", "at_s": 100.0})
    found = account.seconds(reported, wall_s=20.0)
    assert (found["on_planted"], found["stalls_after_them"]) == (3.0, 1.0)
    assert (found["share_of_wall"], found["share_without_start_up"]) == (0.2, 0.5714)


def test_the_gpus_seconds_are_medians_over_what_was_timed() -> None:
    spent = json.dumps({"smoke_s": "0.1", "correctness_s": "0.2", "timing_s": "0.1"})
    found = account.on_the_gpu([row(HEALTHY, environment_json=spent), row(HEALTHY)])
    assert (found["candidates"], found["whole_s"], found["validators_share"]) == (1, 0.4, 0.75)
