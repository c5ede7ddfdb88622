"""`evoflash evaluate`: one genome by values, id or file, evaluated as in a search and stored."""

import json

import pytest
from tables import table_of_cases

from evoflash.app import compare as comparing
from evoflash.app import evaluate
from evoflash.app.check import subject as checking
from evoflash.champions import champion_today
from evoflash.errors import UsageError
from evoflash.evaluation import Basis
from evoflash.kernels.standalone import export_kernel
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views.kernel import describe_outcome

ARGV = ("evaluate",)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return str(tmp_path_factory.mktemp("evaluate") / "evoflash.db")


@pytest.fixture(scope="module")
def outcome(database):
    chosen = evaluate.of_words(None, "flash_wmma", ["block_n=32"], problem="mission", gpu="l4", db=database)
    return evaluate.evaluate(chosen, "emulated", database, argv=ARGV)


def named(what, database, **given):
    return evaluate.of_name(str(what), **{"problem": None, "gpu": None, **given}, db=database)


def test_a_genome_of_values_is_checked_and_estimated(outcome) -> None:
    assert outcome.evaluation.is_correct
    assert outcome.evaluation.basis is Basis.ESTIMATED
    assert outcome.evaluation.genome.as_dict()["block_n"] == 32


def test_the_outcome_is_stored_as_a_run_of_its_own(outcome, database) -> None:
    with open_store(database, read_only=True) as store:
        (stored,) = store.runs()
        ((proposal, evaluation),) = store.history(stored)

    assert stored.key.strategy == proposal.operator == "evaluate"
    assert evaluation == outcome.evaluation


def test_the_report_names_the_kernel_and_marks_its_time(outcome) -> None:
    assert outcome.evaluation.genome.id in describe_outcome(outcome)
    assert "ESTIMATED" in describe_outcome(outcome)


def test_the_first_digits_of_an_id_name_its_genome_problem_and_gpu(outcome, database) -> None:
    found = named(outcome.evaluation.genome.id[:6], database)

    assert (found.family, found.gpu) == ("flash_wmma", "l4")
    assert dict(found.values) == outcome.evaluation.genome.as_dict()
    assert found.problem == outcome.evaluation.problem


@pytest.mark.full
def test_an_id_of_the_archive_is_evaluated_checked_and_compared_as_it_is_exported(tmp_path) -> None:
    h200, problem = load_gpu("h200"), parse_problem("mission")
    genome = champion_today(problem, h200).genome
    no_database = str(tmp_path / "none.db")

    found = named(genome.id[:10], no_database)
    assert (found.family, dict(found.values)) == (genome.family, genome.as_dict())
    assert (found.problem, found.gpu) == (str(problem), "h200")

    (checked,) = checking.named_kernels(genome.id[:10], None, [], gpu=None, problem=None, db=no_database)
    assert checked.candidate.genome == genome

    meant = comparing._look_up(genome.id[:10], problem=None, spec=h200, db=no_database, seed=0)
    assert meant.problem == str(problem)


@pytest.mark.parametrize("half", ["// evoflash export --family flash_mma", "// evoflash export --set 'a=1"])
def test_half_a_banner_is_refused_by_evaluate_check_and_compare(half, database, tmp_path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(f"{half}\n")

    with pytest.raises(UsageError, match="banner is not whole"):
        named(path, database)
    with pytest.raises(UsageError, match="banner is not whole"):
        checking.named_kernels(str(path), None, [], gpu=None, problem=None, db=database)
    with pytest.raises(UsageError, match="banner is not whole"):
        comparing._look_up(str(path), problem=None, spec=load_gpu("l4"), db=database, seed=0)


def test_problem_and_gpu_override_what_a_genome_was_made_for(outcome, database) -> None:
    found = named(outcome.evaluation.genome.id, database, problem="decode8k", gpu="h200")

    assert (found.problem, found.gpu) == (str(parse_problem("decode8k")), "h200")


def test_what_json_prints_is_taken_back_as_a_file(outcome, database, tmp_path) -> None:
    path = tmp_path / "kernel.json"
    path.write_text(json.dumps([outcome.evaluation.as_dict()]))

    assert dict(named(path, database).values) == outcome.evaluation.genome.as_dict()


def test_a_file_needs_family_and_values_only(database, tmp_path) -> None:
    path = tmp_path / "kernel.json"
    path.write_text('{"family": "flash_wmma", "values": {"stages": 2}}')
    found = named(path, database)

    assert (found.problem, found.gpu, dict(found.values)) == ("mission", None, {"stages": 2})


@table_of_cases()
def test_a_file_without_a_genome_is_refused_with_what_to_write(text, database, tmp_path) -> None:
    path = tmp_path / "kernel.json"
    path.write_text(text)

    with pytest.raises(UsageError, match="evoflash show ID --json"):
        named(path, database)


def test_an_exported_file_is_its_genome(outcome, database, tmp_path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text(export_kernel(outcome.evaluation.genome, parse_problem("mission"), load_gpu("l4")))

    assert dict(named(path, database).values) == outcome.evaluation.genome.as_dict()


def test_an_exported_file_that_was_edited_is_no_genome(outcome, database, tmp_path) -> None:
    text = export_kernel(outcome.evaluation.genome, parse_problem("mission"), load_gpu("l4"))
    path = tmp_path / "kernel.cu"
    path.write_text(text.replace("__syncthreads()", "", 1) + "// mine\n")

    with pytest.raises(UsageError, match=r"was edited.*evoflash check"):
        named(path, database)


@table_of_cases()
def test_what_names_no_genome_is_refused(what, family, words, says, database) -> None:
    with pytest.raises(UsageError, match=says):
        evaluate.of_words(what, family, words, problem=None, gpu="l4", db=database)


def test_json_and_text_are_of_the_same_kernel(outcome) -> None:
    (told,) = json.loads(json.dumps([outcome.evaluation.as_dict()]))

    assert told["genome"]["id"] == outcome.evaluation.genome.id
