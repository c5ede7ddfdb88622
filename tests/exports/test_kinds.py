"""Kinds by name and by path; T4 results and Solutions; what the commands write and what they refuse."""

import ast
import json
from dataclasses import replace

import pytest
from exported_cases import champion, exported
from tables import data, table_of_cases

from evoflash.champions import champion_today
from evoflash.cli import program as cli
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung, RunKey, Status, Timing, Verdict
from evoflash.exports import flashinfer_solution, t4
from evoflash.exports.claims import as_checked, as_comment, claims, facts
from evoflash.exports.exported import with_evaluation
from evoflash.exports.kinds import KINDS, kind_of
from evoflash.exports.launch_json import artefact
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import render
from evoflash.notices import heard_by
from evoflash.replay.kernel_tuner import read_recording
from evoflash.replay.t4_results import t4_results
from evoflash.store.store import open_store


@table_of_cases()
def test_a_path_says_its_kind(path, name):
    assert kind_of(None, path).name == name


def test_a_path_that_says_nothing_is_asked_about():
    with pytest.raises(
        UsageError, match=r"x\.bin does not say what to write: end it in one of \.cu \(cu\), .*or add --kind"
    ):
        kind_of(None, "x.bin")


def test_an_unknown_kind_is_named_with_its_neighbour():
    with pytest.raises(UsageError, match=r"--kind cubim: .*cubin"):
        kind_of("cubim", "x")


def test_no_ending_means_two_kinds():
    endings = [ending for kind in KINDS for ending in kind.endings]

    assert len(set(endings)) == len(endings)
    assert all(kind_of(None, f"x{ending}").name == kind.name for kind in KINDS for ending in kind.endings)


# ---- of a database


def evaluation_of(case, genome, us, **changes):
    known = Evaluation(
        genome,
        str(case.problem),
        case.gpu.name,
        Basis.MEASURED,
        Status.CORRECT,
        Rung.DONE,
        verdicts=(Verdict(str(case.problem), True, 4e-4, 2e-3, 1e-6, 1.0),),
        timings=(Timing(str(case.problem), "cold", us, us, us, 30),) if us else (),
        score_us=us,
    )
    return replace(known, **changes)


@pytest.fixture
def searched(tmp_path):
    """A database with a search of six kernels; the case's own is the fastest."""
    case, db = exported("direct"), str(tmp_path / "search.db")
    space = load_family(case.genome.family).space(case.problem.compile_keys(case.gpu.arch), case.gpu)
    seeds = load_family(case.genome.family).seeds_for(case.problem, space, case.gpu)
    others = [genome for genome in seeds if genome != case.genome][:5]
    outcomes = [evaluation_of(case, case.genome, 3.5)]
    failed = {
        "status": Status.CORRECTNESS,
        "rung": Rung.CORRECTNESS,
        "reason": "off by one",
        "score_us": None,
    }
    screened = {"status": Status.SCREENED, "rung": Rung.CORRECTNESS}
    for index, genome in enumerate(others):
        changes = {0: failed, 1: screened}.get(index, {})
        outcomes.append(evaluation_of(case, genome, None if changes is failed else 5.0 + index, **changes))
    with open_store(db) as store:
        key = RunKey(str(case.problem), case.gpu.name, Basis.MEASURED, "evolution", 1)
        run = store.begin(key, gpu_hash="", budget=9, argv=[], environment={})
        for outcome in outcomes:
            store.add(run, outcome, Proposal(outcome.genome))
    return case, db, outcomes


def test_t4_results_read_back_as_the_search_had_them(searched, tmp_path):
    case, db, outcomes = searched
    path = tmp_path / "flash_direct.t4.json"

    t4.write(with_evaluation(case, db), path)

    recording = read_recording(path)
    assert {genome.values for genome in recording.space.outcomes} == {e.genome.values for e in outcomes}
    for evaluation in outcomes:
        (found,) = [o for g, o in recording.space.outcomes.items() if g.values == evaluation.genome.values]
        assert (found.status, found.rung) == (evaluation.status, evaluation.rung)
        assert found.score_us == evaluation.learnt_us
    assert (recording.problem, recording.device) == (str(case.problem), case.gpu.name)
    assert (recording.basis, recording.space.version) == (Basis.MEASURED, case.genome.version)
    assert {genome.id for genome in recording.space} == {e.genome.id for e in outcomes}
    for result in json.loads(path.read_text())["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= result.keys()
        assert result["invalidity"] != "screened"


def test_t4_results_are_the_search_s_though_the_kernel_was_verified_since(searched, tmp_path):
    case, db, outcomes = searched
    with open_store(db) as store:
        for strategy in ("verify", "evaluate"):
            key = RunKey(str(case.problem), case.gpu.name, Basis.MEASURED, strategy, 0)
            run = store.begin(key, gpu_hash="", budget=1, argv=[], environment={})
            store.add(run, outcomes[0], Proposal(outcomes[0].genome))

    def rows(**changes) -> int:
        path = tmp_path / "t4.json"
        t4.write(replace(with_evaluation(case, db), **changes), path)
        return len(json.loads(path.read_text())["results"])

    assert rows() == len(outcomes)
    assert rows(run=str(run.id)) == 1


def test_estimates_in_t4_results_are_no_time_of_any_other_reader(searched, tmp_path):
    _, _, outcomes = searched
    estimate = replace(outcomes[0], basis=Basis.ESTIMATED, model_version="7")
    params = load_family(estimate.genome.family).params
    (result,) = t4_results(params, [estimate], {"extensions": "mutations/shake.py 12ab"})["results"]

    assert result["objectives"] == [result["measurements"][0]["name"]] == ["estimated_time"]
    assert result["times"]["runtimes"] == []
    path = tmp_path / "estimates.t4.json"
    path.write_text(json.dumps({"results": [result]}))
    back = read_recording(path)
    assert (back.basis, back.model_version) == (Basis.ESTIMATED, "7")
    assert back.notes == {"extensions": "mutations/shake.py 12ab"}


def test_an_edited_result_of_ours_is_refused(searched, tmp_path):
    case, db, _ = searched
    path = tmp_path / "t4.json"
    t4.write(with_evaluation(case, db), path)
    edited = json.loads(path.read_text())
    edited["results"][0]["evoflash"]["score_us"] = 0.1
    path.write_text(json.dumps(edited))

    with pytest.raises(UsageError, match="was changed since evoflash wrote it"):
        read_recording(path)


def test_t4_results_without_a_search_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no search in the database evaluated"):
        t4.write(with_evaluation(exported("direct"), str(tmp_path / "none.db")), tmp_path / "t4.json")

    assert list(tmp_path.iterdir()) == []


def test_an_export_claims_what_the_database_knows_and_no_more(searched):
    case, db, _ = searched

    known = claims(with_evaluation(case, db))

    assert known["verified"]["status"] == "correct"
    assert known["verified"]["checks"] == 1
    assert [(each["median_us"], each["basis"]) for each in known["timings"]] == [(3.5, "measured")]
    assert claims(case)["verified"] == {"status": "never evaluated", "checks": 0}


def test_an_export_of_another_text_than_was_checked_says_so_and_claims_nothing():
    case = exported("direct")
    key, heard = case.compile_key, list[str]()
    rendered = render(case.genome, key, case.gpu).source_sha
    leaves = Build("x", key, rendered, "cubin", "the machine code")
    asked = []
    for sha, code in ((rendered, "the machine code"), ("f" * 64, "the machine code"), (rendered, "another")):
        build = Build("x", key, sha, "cubin", code)
        checked = replace(case, evaluation=evaluation_of(case, case.genome, 20.0, builds=(build,)))
        with heard_by(heard.append):
            asked += [as_checked(checked), as_checked(checked, [leaves])]

    is_kept = [each.evaluation is not None and not each.is_other for each in asked]
    assert is_kept == [True, True, False, True, True, False]
    said = "is not the one that was checked: the file claims no check and no time"
    assert [words.split(" of ")[0] for words in heard if said in words] == ["the text", "the machine code"]


def test_an_estimate_is_marked_in_every_form(searched):
    case, db, _ = searched
    estimate = evaluation_of(case, case.genome, 3.5, basis=Basis.ESTIMATED, model_version="7")
    made = artefact(replace(case, evaluation=estimate, db=db))
    head = as_comment(facts(made.description), width=200)

    assert made.description["timings"][0]["basis"] == "estimated"
    assert "~3.50 us (ESTIMATED, never measured)" in head
    assert "in the CPU emulator, never run on a GPU" in head


def test_the_archives_time_is_marked_as_another_machines():
    case = champion("b=1,h=8,hkv=8,sq=128,skv=128,d=64,dtype=fp16")
    known = champion_today(case.problem, case.gpu)

    (timing,) = claims(with_evaluation(case, "missing.db"))["timings"]

    assert timing["basis"].startswith(f"archived: measured on {known.device}")
    assert timing["median_us"] == known.us


# ---- Solutions


def test_a_solution_and_its_definition_fit_together(tmp_path):
    path = tmp_path / "solution.json"

    written = flashinfer_solution.write(exported("plain"), path)

    assert [each.name for each in written] == ["solution.json", "definition.json"]
    solution, definition = (json.loads(each.read_text()) for each in written)
    assert solution["definition"] == definition["name"]
    file, _, function = solution["spec"]["entry_point"].partition("::")
    (source,) = solution["sources"]
    assert source["path"] == file
    assert function in functions_of(source["content"])
    assert arguments_of(source["content"], "run") == [*definition["inputs"], *definition["outputs"]]
    assert arguments_of(definition["reference"], "run") == list(definition["inputs"])
    used = [
        axis
        for spec in (*definition["inputs"].values(), *definition["outputs"].values())
        for axis in spec["shape"]
    ]
    assert set(used) == set(definition["axes"])


def functions_of(text):
    return {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}


def arguments_of(text, name):
    return [argument.arg for argument in functions_of(text)[name].args.args]


def test_flashinfer_bench_itself_takes_the_solution():
    data = pytest.importorskip("flashinfer_bench.data", reason="needs flashinfer-bench")
    case = exported("plain")
    made = flashinfer_solution.definition(case)

    data.Definition(**made)
    data.Solution(**flashinfer_solution.solution(case, made["name"], "solution.json"))


# ---- the commands

KERNEL = (
    *("export", "--family", "flash_direct", "--gpu", "h200"),
    *("--problem", "b=1,h=8,hkv=8,sq=128,skv=128,d=64,dtype=fp16"),
)


def run(capsys, *words):
    """Exit code, stdout and stderr."""
    try:
        code = cli.run_command([str(word) for word in words])
    except SystemExit as left:  # how Typer leaves
        code = left.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@table_of_cases()
def test_export_writes_the_kind_that_the_path_means(name, files, tmp_path, capsys):
    code, out, err = run(capsys, *KERNEL, "-o", tmp_path / name)

    assert (code, out) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert err.startswith("evoflash: wrote ")
    assert all(file in err for file in files)


def test_of_a_folder_of_many_files_their_number_is_said(tmp_path, capsys):
    folder = tmp_path / "hub"
    code, _, err = run(capsys, *KERNEL, "--kind", "hub", "-o", folder)

    assert code == 0
    assert err == f"evoflash: wrote {sum(path.is_file() for path in folder.rglob('*'))} files in {folder}\n"


def test_a_kind_may_be_named(tmp_path, capsys):
    code, _, _ = run(capsys, *KERNEL, "--kind", "cupy", "-o", tmp_path / "mine.py")

    assert code == 0
    assert "--kind cupy -o mine.py" in (tmp_path / "mine.py").read_text()


def test_the_command_in_a_file_writes_the_same_bytes(tmp_path, capsys):
    run(capsys, *KERNEL, "-o", tmp_path / "attention.py")
    text = (tmp_path / "attention.py").read_text()
    head = text[: text.index("\n#\n")].replace("\n#", " ")
    words = head.partition(": evoflash ")[2].split()
    again = tmp_path / "again"
    again.mkdir()

    code, _, _ = run(capsys, *words[:-1], again / words[-1])

    assert code == 0
    assert (again / "attention.py").read_text() == text


def test_several_architectures_are_one_export(tmp_path, capsys):
    code, _, _ = run(capsys, *KERNEL, "--arch", "sm_90a,sm_89", "-o", tmp_path / "k.cubin")

    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.json", "k.sm_89.cubin", "k.sm_90a.cubin"]


BAD_COMMANDS = data(__file__, "BAD_COMMANDS")


@pytest.mark.parametrize("case", BAD_COMMANDS)
def test_a_command_that_cannot_be_ends_in_one_line_and_writes_nothing(case, tmp_path, capsys, monkeypatch):
    words, said = BAD_COMMANDS[case]
    words = [word.replace("LONG", "a" * 300) for word in words]
    if words[0] == "KERNEL":
        words[:1] = KERNEL
    monkeypatch.chdir(tmp_path)

    code, out, err = run(capsys, *words, "--db", tmp_path / "none.db")

    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["cu", "cupy", "torch", "solution"])
def test_no_export_replaces_a_database(kind, tmp_path, capsys):
    path = tmp_path / "evoflash.db"
    open_store(str(path)).close()
    before = path.read_bytes()

    code, _, err = run(capsys, *KERNEL, "--kind", kind, "-o", path, "--db", tmp_path / "none.db")

    assert code == 2
    assert f"{path} is a database, and would be lost" in err
    assert path.read_bytes() == before


def test_best_exports_what_it_found_with_its_verdict_and_time(searched, tmp_path, capsys):
    case, db, _ = searched
    path = tmp_path / "out" / "best.cubin"
    path.parent.mkdir()

    code, _, err = run(capsys, "best", "--db", db, "--export", path)

    assert code == 0
    assert f"wrote {path}" in err
    description = json.loads(path.with_name("best.json").read_text())
    assert description["kernel"]["genome"] == case.genome.id
    assert description["timings"][0]["median_us"] == 3.5
    assert description["verified"]["basis"] == "measured"
