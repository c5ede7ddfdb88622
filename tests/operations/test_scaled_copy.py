"""A second operation goes all the way: its template, compiler, emulator, validator, search, store and export.

Nothing in evoflash knows of it: an environment variable names its module.
"""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import forked
import pytest
from nvrtc_texts import compiled
from operations.scaled_copy import CompileKey, Workload
from places import TESTS
from tables import table_of_cases

from evoflash import operation as registry
from evoflash.champions import distance
from evoflash.emulator.preflight import preflight
from evoflash.errors import EvoflashError, TemplateError, UsageError
from evoflash.evaluation import Basis, Proposal, RunKey, Status
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.evaluators.measured import MeasuredEvaluator
from evoflash.evaluators.pipeline import ThisMachine
from evoflash.gpu.launcher import present_gpu, spec_of
from evoflash.gpu.timing.protocols import sets_of
from evoflash.kernels.family import families_for, load_family, read_family
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.kernels.standalone import export_kernel, genome_of
from evoflash.numerics import decode, encode
from evoflash.problem import parse_problem
from evoflash.search import search
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.strategies import make_strategy
from evoflash.validation.plan import check_correctness
from evoflash.workload import Output

HERE = Path(__file__).parent
VARIABLES = {"EVOFLASH_TEMPLATES": str(HERE), "EVOFLASH_OPERATIONS": "scaled_copy=operations.scaled_copy"}
L4 = load_gpu("l4")
TEXT = "scaled_copy:rows=70,columns=264"


@pytest.fixture
def family(monkeypatch, use_templates):
    monkeypatch.setenv("EVOFLASH_OPERATIONS", VARIABLES["EVOFLASH_OPERATIONS"])
    use_templates(HERE)
    return load_family("scaled_copy")


def candidate_of(family, *, dtype="fp16", **values):
    key = CompileKey(dtype, L4.arch)
    return render(family.space((key,), L4).genome(values), key, L4)


def evoflash(*words: str) -> str:
    done = forked.evoflash(*words, **VARIABLES)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- its text and its words


def test_a_problem_of_another_operation_says_so_and_is_read_back_from_its_own_text(family):
    problem = parse_problem(f"{TEXT}+scaled_copy:rows=3,columns=8,dtype=bf16")

    assert problem.workloads == (Workload(70, 264), Workload(3, 8, "bf16"))
    assert parse_problem(str(problem)) == problem
    assert problem.compile_keys("sm_89") == (CompileKey("fp16", "sm_89"), CompileKey("bf16", "sm_89"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "scaled_cpy:rows=1,columns=8",
            "no operation is called 'scaled_cpy': known are attention, linear, paged_attention, scaled_copy",
        ),
        ("scaled_copy:rows=1", "write rows=,columns="),
        (f"{TEXT}+mission", "mixes operations"),
    ],
)
def test_a_problem_that_is_none_is_refused_in_one_line(family, text, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse_problem(text)


def test_a_family_is_proposed_for_problems_of_its_own_operation_alone(family):
    assert [known.name for known in families_for(L4, "scaled_copy")] == ["scaled_copy"]
    assert "scaled_copy" not in {known.name for known in families_for(L4)}
    with pytest.raises(UsageError, match=r"scaled_copy computes scaled_copy, .* is attention"):
        genome_of("scaled_copy", [], problem="mission", gpu="l4")


def test_a_template_of_an_unknown_operation_is_refused(family, tmp_path):
    path = tmp_path / "lost.cu.j2"
    path.write_text(
        family.path.read_text(encoding="utf-8").replace('"scaled_copy"', '"lost"', 1), encoding="utf-8"
    )

    with pytest.raises(TemplateError, match=r"lost\.cu\.j2: op: no operation is called 'lost'"):
        read_family(path)


def test_seeds_are_meant_for_shapes_in_the_operations_own_words(family):
    problem, space = parse_problem(TEXT), family.space((CompileKey("fp16", L4.arch),), L4)

    wide = family.seeds_for(problem, space, L4)
    narrow = family.seeds_for(parse_problem("scaled_copy:rows=70,columns=8"), space, L4)

    assert [len(wide), len(narrow)] == [2, 1]
    assert wide[0].as_dict()["block_n"] == 128


def test_the_shipped_archive_is_infinitely_far_from_another_operations_problem(family):
    assert distance(parse_problem(TEXT), parse_problem("mission")) == float("inf")
    assert distance(parse_problem(TEXT), parse_problem("scaled_copy:rows=140,columns=264")) == 1


# ---- compiler, emulator, validator


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_right_kernel_compiles_and_is_found_right_in_the_emulator(family, dtype):
    candidate = candidate_of(family, dtype=dtype, warps=2, block_m=8)

    build, found = compile_candidate(candidate), preflight(candidate, family, L4, seed=1)

    assert build.ok, build.log
    assert build.compile_key == candidate.compile_key
    assert found.status is Status.CORRECT, found.complaint
    assert [verdict.rel_l2 > 0 for verdict in found.verdicts] == [True, True, False]  # 0.75 itself is exact


@table_of_cases()
def test_a_planted_fault_is_found_in_the_emulator(family, fault, status, complaint):
    found = preflight(candidate_of(family, block_m=16, fault=fault), family, L4, seed=1)

    assert found.status is Status(status)
    assert re.search(complaint, found.complaint), found.complaint


def scaled(inputs, *, dtype="fp16", factor=0.75):
    return Output({"Y": encode(decode(inputs.x, dtype) * factor, dtype)})


def test_numbers_are_judged_by_the_operations_own_reference(family):
    workload = Workload(37, 136)

    def off_by_a_little(inputs):
        return scaled(inputs, factor=0.752)

    assert check_correctness(scaled, workload, seed=2).passed
    verdict = check_correctness(off_by_a_little, workload, seed=2)
    assert not verdict.passed
    assert "times that of honest fp16 arithmetic; first wrong at row=" in verdict.reason


def test_what_must_hold_without_a_reference_is_asked(family):
    def forgets_one_row(inputs):
        output = scaled(inputs)
        if "exchanged" in inputs.name:
            output.tensors["Y"][5] = 0
        return output

    verdict = check_correctness(forgets_one_row, Workload(37, 136), seed=2)

    assert not verdict.passed
    assert verdict.reason.startswith("exchanged rows: the output moves")


def test_inputs_of_timing_fill_the_cache_twice(family):
    workload = Workload(1024, 1024)

    assert sets_of(workload, 48 << 20) == 48


# ---- search, store, export


@pytest.mark.slow
def test_a_search_without_a_gpu_finds_a_kernel_and_the_store_gives_all_of_it_back(family, tmp_path):
    problem = parse_problem(f"{TEXT}+scaled_copy:rows=9,columns=64,dtype=bf16")
    space = family.space(problem.compile_keys(L4.arch), L4)
    strategy = make_strategy("evolution", space, seed=1, seeds=family.seeds_for(problem, space, L4))
    key = RunKey(str(problem), L4.name, Basis.ESTIMATED, "evolution", 1)

    with open_store(str(tmp_path / "store.db")) as store:
        run = store.begin(key, gpu_hash="l4", budget=5, argv=[], environment={})
        with EmulatedEvaluator(problem, L4, seed=1, cores=ThisMachine(1)) as evaluator:
            best = search(strategy, evaluator, store, run, budget=5)
        history = store.history(run)

    assert len(history) == 5
    assert best is not None
    stored = next(evaluation for _, evaluation in history if evaluation.genome == best.genome)
    assert replace(stored, environment=best.environment) == best
    assert [build.compile_key for build in stored.builds] == list(problem.compile_keys(L4.arch))
    assert {timing.protocol for timing in stored.timings} == {"model"}
    assert not [e for _, e in history if e.genome.as_dict()["fault"] != "none" and e.is_correct]


def test_the_commands_search_rank_and_export_it(family, tmp_path):
    db, shape = str(tmp_path / "store.db"), "scaled_copy:rows=70,columns=264,dtype=fp16"
    evoflash("search", "--problem", TEXT, "--gpu", "l4", "--budget", "3", "--db", db)

    board = evoflash("leaderboard", "--problem", TEXT, "--gpu", "l4", "--db", db)
    shown = evoflash("export", *shlex.split(f"--family scaled_copy --problem {TEXT} --gpu l4 --set warps=2"))

    assert shape in board
    assert f"--problem {shape} --gpu l4" in shown


def test_the_exported_file_compiles_and_launches_with_sizes_that_come_at_run_time(family):
    genome, problem, gpu = genome_of("scaled_copy", ["warps=2", "block_m=8"], problem=TEXT, gpu="l4")

    text = export_kernel(genome, problem, gpu)

    compiled(text, gpu.arch)
    assert "config.gridDim = dim3(ceil_div(rows, 8), 1, 1);" in text
    assert "cudaLaunchKernelEx(&config, scaled_copy," in text
    assert "int scaled_copy_forward(const scaled_copy_args* args, struct CUstream_st* stream);" in text
    assert "attention" not in text.partition('extern "C"')[2]


def test_evoflash_itself_never_names_the_operation():
    folder = TESTS.parent / "evoflash"

    assert not [path for path in folder.rglob("*.py") if "scaled_copy" in path.read_text(encoding="utf-8")]
    assert "scaled_copy" not in registry._SHIPPED


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.takes_turns
def test_a_gpu_finds_it_right_and_times_it_and_rejects_what_is_wrong(family):
    try:
        spec = spec_of(present_gpu())
    except EvoflashError as error:
        pytest.skip(f"needs a GPU ({error})")
    problem = parse_problem("scaled_copy:rows=4096,columns=1024")
    space = family.space(problem.compile_keys(spec.arch), spec)
    with MeasuredEvaluator(problem, spec, seed=1, cores=ThisMachine(1), ahead=2) as evaluator:
        for values in ({"warps": 4, "block_m": 8}, {"block_m": 16, "fault": "last column"}):
            evaluator.submit(Proposal(space.genome(values)))
        (_, good), (_, bad) = evaluator.collect(), evaluator.collect()

    assert good.status is Status.CORRECT, good.reason
    assert good.score_us
    assert bad.status is Status.CORRECTNESS
