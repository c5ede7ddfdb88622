"""`evoflash verify`: a claim is confirmed where it is true here, and refuted where anything of it is not."""

import ast
import base64
import hashlib
import io
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tables import table_of_cases

from evoflash.app import evaluate
from evoflash.app.leaderboard import read_rankings
from evoflash.app.verify.claim import Claim, of_evaluation, of_json
from evoflash.app.verify.claim_sources import ClaimSelector, claim_of
from evoflash.app.verify.reproduction import How, Identity, Reproduction, find_out, identify
from evoflash.app.verify.verdict import ClaimStatus, Verification, interval_of, judge, parse_tolerance
from evoflash.champions import champion_today
from evoflash.cli import program as cli
from evoflash.errors import EvoflashError, UsageError
from evoflash.evaluation import Basis, Rung, Status, Timing
from evoflash.exports.exported import ExportRequest
from evoflash.exports.kinds import kind_of
from evoflash.gpu.launcher import PresentGpu, present_gpu
from evoflash.kernels.family import load_family
from evoflash.kernels.standalone import export_kernel
from evoflash.problem import parse_problem
from evoflash.replay.t4_results import t4_results
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views import verify as report

MISSION, L4 = parse_problem("mission"), load_gpu("l4")
MACHINE = PresentGpu("NVIDIA L4", 89, "13.0", "0000:01:00.0", ())


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return str(tmp_path_factory.mktemp("verify") / "evoflash.db")


@pytest.fixture(scope="module")
def evaluation(database):
    chosen = evaluate.of_words(None, "flash_wmma", ["block_n=32"], problem="mission", gpu="l4", db=database)
    return evaluate.evaluate(chosen, "emulated", database, argv=("evaluate",)).evaluation


@pytest.fixture
def row(evaluation, database):
    """The kernel's row as `leaderboard --json` prints it."""
    with open_store(database, read_only=True) as store:
        rows = json.loads(json.dumps(read_rankings(store).as_dict()))["leaderboard"]
    (mine,) = (row for row in rows if row["genome_id"] == evaluation.genome.id)
    return mine


@pytest.fixture
def record(evaluation):
    """The kernel as `best --json` and `show --json` print it."""
    (told,) = json.loads(json.dumps([evaluation.as_dict()]))
    return told


@pytest.fixture
def written(tmp_path):
    def write(data, name="claim.json"):
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return str(path)

    return write


@pytest.fixture
def verified(tmp_path, capsys):
    """What the command ends with and says, on a database of its own: its exit code and its JSON."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            cli.run_command(["verify", *arguments, "--json", "--db", str(tmp_path / "own.db")])
        return ended.value.code, json.loads(capsys.readouterr().out)

    return call


def claimed(what, database, **asked):
    return claim_of(what, ClaimSelector(**asked), database)


def measured(evaluation, us=20.0, **changes):
    """The evaluation as if a GPU had measured it, in finals of sixty samples."""
    timing = Timing(str(MISSION), "final-cold", us, 0.99 * us, 1.01 * us, 60)
    known = {"basis": Basis.MEASURED, "timings": (timing,), "score_us": us, "model_version": ""}
    return replace(evaluation, **{**known, **changes})


def judged(claim, evaluation, how=How.MEASURED, **given):
    return judge(claim, Reproduction(identify(claim), how, evaluation, MACHINE, "l4"), **given)


# ---- claims that are run


@pytest.mark.slow
def test_a_row_of_the_leaderboard_that_is_true_is_confirmed(row, written, verified) -> None:
    code, told = verified(written({"leaderboard": [row]}))

    assert (code, told["verdict"], told["reasons"]) == (0, "confirmed", [])
    assert told["found"]["time_us"] == pytest.approx(row["score_us"])


def test_a_record_of_best_is_confirmed_and_stored_as_a_run_of_its_own(
    record, written, verified, tmp_path
) -> None:
    code, _ = verified(written([record]))

    with open_store(str(tmp_path / "own.db"), read_only=True) as store:
        (run,) = store.runs()
    assert (code, run.key.strategy) == (0, "verify")


def test_a_row_whose_time_was_halved_is_refuted(row, written, verified) -> None:
    code, told = verified(written(row | {"score_us": row["score_us"] / 2}))

    assert (code, told["verdict"]) == (1, "not confirmed")
    assert "the same model says" in told["reasons"][0]


@pytest.mark.full
def test_a_record_that_contradicts_its_own_times_is_refuted(record, written, verified) -> None:
    code, told = verified(written([record | {"score_us": record["score_us"] / 2}]))

    assert code == 1
    assert any("its own times say" in reason for reason in told["reasons"])


@pytest.mark.parametrize(
    ("name", "says"), [("source_sha", "source has another hash"), ("text_sha", "machine code has another")]
)
@pytest.mark.sample(1)
def test_a_record_with_another_hash_is_refuted(name, says, record, written, verified) -> None:
    record["builds"][0][name] = "0" * 64
    code, told = verified(written([record]))

    assert (code, told["verdict"]) == (1, "not confirmed")
    assert any(says in reason for reason in told["reasons"])


@pytest.mark.full
def test_registers_that_the_same_compiler_does_not_make_are_refuted(record, written, verified) -> None:
    record["builds"][0]["registers"] -= 1
    code, told = verified(written([record]))

    assert code == 1
    assert any("registers are claimed" in reason for reason in told["reasons"])


@pytest.mark.full
def test_registers_of_a_row_that_names_no_compiler_are_noted_and_decide_nothing(
    row, written, verified
) -> None:
    code, told = verified(written(row | {"registers": row["registers"] - 1}))

    assert code == 0
    assert any("by another compiler or another kernel" in note for note in told["notes"])


def test_an_exported_file_as_it_was_written_is_its_genome_and_claims_no_time(
    evaluation, written, verified
) -> None:
    path = written(export_kernel(evaluation.genome, MISSION, L4), "kernel.cu")
    code, told = verified(path)

    assert (code, told["verdict"]) == (4, "cannot be compared")
    assert told["reasons"] == ["claimed on l4, this machine has none (correctness checked by the emulator)"]
    assert (told["found"]["status"], told["found"]["genome_id"]) == ("correct", evaluation.genome.id)


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (0.9, 1)], ids=["its own", "a better one"])
def test_the_time_at_an_exported_files_head_is_a_claim(evaluation, written, verified, factor, code) -> None:
    time = (
        f"Time:        ~{factor * evaluation.score_us:.2f} us (ESTIMATED, never measured), model, {MISSION}"
    )
    path = written(
        export_kernel(evaluation.genome, MISSION, L4, claims=("Checked:     so", time)), "kernel.cu"
    )
    found, told = verified(path)

    assert found == code
    assert told["claimed"]["time_us"] == pytest.approx(factor * evaluation.score_us, abs=0.01)
    assert "no time is claimed" not in told["notes"]


def test_an_exported_file_whose_kernel_was_edited_is_refuted_and_checked_as_it_stands(
    evaluation, written, verified
) -> None:
    whole = export_kernel(evaluation.genome, MISSION, L4)
    head, barrier, rest = whole.rpartition("    ef::syncthreads();  // the scores are here")
    assert barrier
    code, told = verified(written(head + rest, "kernel.cu"))

    assert (code, told["verdict"]) == (1, "not confirmed")
    assert "1 line not as exported" in told["reasons"][0]
    assert (told["found"]["status"], told["found"]["genome_id"]) == ("correctness", None)
    assert "no barrier stands between" in told["found"]["reason"]


@pytest.mark.gpu
@pytest.mark.alone_on_gpu
def test_a_true_row_of_this_gpu_is_confirmed_and_a_halved_time_is_not(tmp_path, written, capsys) -> None:
    try:
        gpu = present_gpu()
    except EvoflashError as error:
        pytest.skip(f"needs a GPU ({error})")
    db = str(tmp_path / "gpu.db")
    chosen = evaluate.of_words(None, "flash_mma", [], problem="mission", gpu=None, db=db)
    first = evaluate.evaluate(chosen, "gpu", db, argv=()).evaluation
    (told,) = json.loads(json.dumps([first.as_dict()]))
    claim = of_json(told, "a row")
    found = find_out(claim, db, argv=())

    print(gpu.device_name, report.lines(judge(claim, found)))
    assert judge(claim, found).answer is ClaimStatus.CONFIRMED
    assert judge(replace(claim, time_us=claim.time_us / 2), found).answer is ClaimStatus.REFUTED


# ---- what was found, judged


def test_a_measured_time_within_the_interval_and_its_margin_is_confirmed(evaluation) -> None:
    claim = of_evaluation(measured(evaluation, 20.0), "a row")

    assert judged(claim, measured(evaluation, 20.6)).answer is ClaimStatus.CONFIRMED
    assert judged(claim, measured(evaluation, 20.6), within=0.001).answer is ClaimStatus.REFUTED


@pytest.mark.parametrize("us", [10.0, 40.0])
def test_a_measured_time_that_is_half_or_double_here_is_refuted(us, evaluation) -> None:
    claim = of_evaluation(measured(evaluation, 20.0), "a row")
    verdict = judged(claim, measured(evaluation, us))

    assert verdict.answer is ClaimStatus.REFUTED
    assert "were measured here" in verdict.reasons[0]


def test_a_time_below_the_physical_floor_is_refuted_without_its_gpu(evaluation) -> None:
    claim = of_evaluation(measured(evaluation, 0.5), "a row")
    found = Reproduction(identify(claim), How.EMULATED, replace(evaluation, score_us=None), None, "")

    assert judge(claim, found).answer is ClaimStatus.REFUTED
    assert "beats physics" in judge(claim, found).reasons[0]


def test_a_kernel_that_is_wrong_here_refutes_a_claim_of_being_correct(evaluation) -> None:
    claim = of_evaluation(measured(evaluation), "a row")
    wrong = replace(measured(evaluation), status=Status.CORRECTNESS, rung=Rung.SMOKE, reason="a NaN")
    verdict = judged(claim, wrong)

    assert verdict.answer is ClaimStatus.REFUTED
    assert verdict.reasons == ("it is called correct and is correctness at smoke here: a NaN",)


def test_a_failure_that_is_one_here_too_is_confirmed(evaluation) -> None:
    failed = replace(
        measured(evaluation), status=Status.CORRECTNESS, rung=Rung.SMOKE, reason="a NaN", score_us=None
    )

    assert judged(of_evaluation(failed, "a row"), failed).answer is ClaimStatus.CONFIRMED


def test_another_gpu_than_the_claims_is_named(evaluation) -> None:
    claim = replace(of_evaluation(measured(evaluation), "a row"), gpu="h200")
    found = Reproduction(Identity(evaluation.genome), How.EMULATED, evaluation, MACHINE, "l4")
    verdict = judge(claim, found)

    assert verdict.answer is ClaimStatus.APART
    assert verdict.reasons[0].startswith("claimed on h200, this machine has an NVIDIA L4")


def test_an_estimate_of_another_model_cannot_be_compared(evaluation) -> None:
    claim = replace(of_evaluation(evaluation, "a row"), model_version="0")
    verdict = judged(claim, replace(evaluation, score_us=None), How.EMULATED)

    assert verdict.answer is ClaimStatus.APART
    assert "estimated by model 0" in verdict.reasons[0]


def test_the_interval_is_around_the_time_and_narrower_with_more_samples(evaluation) -> None:
    few, many = (
        interval_of(measured(evaluation, timings=(Timing(str(MISSION), "final-cold", 20.0, 19.8, 20.2, n),)))
        for n in (20, 120)
    )

    assert few.low_us < many.low_us < 20.0 < many.high_us < few.high_us
    assert interval_of(evaluation) is None  # an estimate has none


# ---- which kernel it is


def test_values_that_are_not_those_of_the_id_are_refuted_before_anything_runs(evaluation, database) -> None:
    claim = of_evaluation(evaluation, "a row")
    lying = replace(claim, values={**claim.values, "block_n": 64})
    found = find_out(lying, database, argv=())

    assert found.how is How.NOTHING
    assert judge(lying, found).answer is ClaimStatus.REFUTED
    assert evaluation.genome.id in judge(lying, found).reasons[0]


def test_a_kernel_of_an_older_family_version_cannot_be_compared() -> None:
    family = load_family("flash_mma")
    today = family.seeds_for(MISSION, family.space(MISSION.compile_keys(L4.arch), L4), L4)[0]
    older = Genome(family.name, family.version - 1, today.values)
    claim = Claim("a row", family.name, today.as_dict(), str(MISSION), "l4", older.id)

    assert f"it is of version {older.version} of flash_mma" in identify(claim).apart
    assert judge(claim, Reproduction(identify(claim), How.NOTHING)).answer is ClaimStatus.APART


def test_values_that_no_family_of_today_has_cannot_be_compared() -> None:
    claim = Claim("a row", "flash_wmma", {"colour": "red"}, str(MISSION), "l4")
    found = Reproduction(identify(claim), How.NOTHING)

    assert judge(claim, found).answer is ClaimStatus.APART
    assert "no kernel of this evoflash" in judge(claim, found).reasons[0]


# ---- reading


def test_an_id_of_the_database_is_its_claim(evaluation, database) -> None:
    claim = claimed(evaluation.genome.id[:7], database)

    assert (claim.genome_id, claim.time_us) == (evaluation.genome.id, evaluation.score_us)
    assert claim.basis is Basis.ESTIMATED


def test_an_id_of_the_archive_is_a_claim_of_its_time_and_device(tmp_path) -> None:
    known = champion_today(MISSION, load_gpu("h200"))
    claim = claimed(known.genome.id, str(tmp_path / "none.db"), problem="mission")

    assert (claim.time_us, claim.device, claim.gpu) == (known.us, known.device, "h200")


def test_stdin_is_read_as_a_file_is(row, database, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(row)))

    assert claimed("-", database).genome_id == row["genome_id"]


def test_of_several_rows_one_has_to_be_named(row, written, database) -> None:
    path = written({"leaderboard": [row | {"score_us": 1.5}, row]})

    with pytest.raises(UsageError, match="say which with --row"):
        claimed(path, database)
    assert claimed(path, database, row=1).time_us == 1.5
    assert claimed(path, database, row=2).time_us == row["score_us"]
    with pytest.raises(UsageError, match="no row 3"):
        claimed(path, database, row=3)


@table_of_cases()
def test_what_is_no_claim_is_refused_in_one_line(text, written, database) -> None:
    with pytest.raises(UsageError) as refused:
        claimed(written(text), database)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("what", ["no such thing", "missing.json", "missing.cu", "/dev"])
def test_what_is_not_there_is_refused_with_what_can_be_given(what, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        claimed(str(tmp_path) if what == "/dev" else what, str(tmp_path / "none.db"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (
            {"problem": "mission,causal"},
            f"is a claim for {MISSION}, not for {MISSION},causal: leave --problem out",
        ),
        ({"problem": "mission", "gpu": "h200"}, "is a claim for l4, not for h200: leave --gpu out"),
    ],
)
@pytest.mark.parametrize("name", ["kernel.cu", "claim.json"])
def test_what_a_claim_is_not_for_is_not_confirmed(
    name, asked, says, evaluation, record, written, database
) -> None:
    file = written(export_kernel(evaluation.genome, MISSION, L4) if name == "kernel.cu" else record, name)
    with pytest.raises(UsageError, match=re.escape(says)):
        claimed(file, database, **asked)
    assert claimed(file, database, problem="mission", gpu="l4").genome_id == evaluation.genome.id


def test_a_cu_file_without_a_banner_claims_nothing(written, database) -> None:
    with pytest.raises(UsageError, match="claims nothing"):
        claimed(written("__global__ void k() {}", "own.cu"), database)


# ---- exported folders


def exported(evaluation, path):
    """What `best --export` writes there."""
    given = ExportRequest(evaluation.genome, MISSION, L4, evaluation)
    kind_of(None, str(path)).write(given, path)
    return path


@pytest.mark.parametrize("name", ["hub", "kernel.cubin", "attention.py", "torch_op.py", "solution.json"])
def test_an_export_with_machine_code_is_the_kernel_that_it_says(name, evaluation, tmp_path) -> None:
    claim = claimed(str(exported(measured(evaluation), tmp_path / name)), "none.db")

    assert (claim.faults, claim.genome_id) == ((), evaluation.genome.id)
    assert claim.time_us == pytest.approx(20.0)
    assert claim.builds[0].text_sha == evaluation.builds[0].text_sha
    assert judged(claim, measured(evaluation)).answer is ClaimStatus.CONFIRMED


def test_a_launch_json_whose_time_was_halved_is_refuted(evaluation, tmp_path) -> None:
    exported(measured(evaluation), tmp_path / "kernel.cubin")
    description = tmp_path / "kernel.json"
    data = json.loads(description.read_text())
    data["timings"][0]["median_us"] /= 2
    description.write_text(json.dumps(data))

    assert judged(claimed(str(tmp_path), "none.db"), measured(evaluation)).answer is ClaimStatus.REFUTED


def in_file(path, old, new):
    """The file with one text in place of another."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return str(path)


def test_a_python_file_whose_claimed_time_was_halved_is_refuted(evaluation, tmp_path) -> None:
    path = exported(measured(evaluation), tmp_path / "torch_op.py")
    claim = claimed(in_file(path, '"median_us": 20.0', '"median_us": 10.0'), "none.db")

    assert judged(claim, measured(evaluation)).answer is ClaimStatus.REFUTED


def test_a_python_file_with_other_machine_code_is_refuted(evaluation, tmp_path) -> None:
    path = exported(measured(evaluation), tmp_path / "attention.py")
    (sha,) = re.findall(r'"sha256": "(\w{8})', path.read_text().replace("'\n    '", ""))
    claim = claimed(in_file(path, sha, "0" * 8), "none.db")

    assert "its sha256 is another" in claim.faults[0]


def test_a_python_file_with_an_edited_launcher_is_neither_confirmed_nor_refuted(evaluation, tmp_path) -> None:
    path = exported(measured(evaluation), tmp_path / "torch_op.py")
    claim = claimed(in_file(path, "raise Refused(", "print("), "none.db")
    verdict = judged(claim, measured(evaluation))

    assert verdict.answer is ClaimStatus.APART
    assert "not this evoflash's" in verdict.reasons[0]


@pytest.mark.parametrize("name", ["attention.py", "torch_op.py", "solution.json"])
def test_a_python_file_with_more_code_below_its_launcher_cannot_be_compared(
    name, evaluation, tmp_path
) -> None:
    path = exported(measured(evaluation), tmp_path / name)
    old, more = "attention = Attention(KERNEL)", "attention = Attention(KERNEL); KERNEL.scale = 2"
    verdict = judged(claimed(in_file(path, old, more), "none.db"), measured(evaluation))

    assert (verdict.answer, len(verdict.reasons)) == (ClaimStatus.APART, 1)
    assert "attention = Attention(KERNEL)" in verdict.reasons[0]


def test_cubins_that_another_zlib_packed_are_the_same_file(evaluation, tmp_path) -> None:
    path = exported(measured(evaluation), tmp_path / "torch_op.py")
    text = path.read_text()
    (packed,) = re.findall(r"^_CUBINS = ({.*?^})$", re.sub("  # base64.*", "", text), re.M | re.S)
    plain = {arch: zlib.decompress(base64.b64decode(each)) for arch, each in ast.literal_eval(packed).items()}
    again = {arch: base64.b64encode(zlib.compress(each, 1)).decode() for arch, each in plain.items()}
    start = text.index("_CUBINS = ")
    end = text.index("\n}\n", start)
    path.write_text(f"{text[:start]}_CUBINS = {again!r}{text[end + 2 :]}")

    assert judged(claimed(str(path), "none.db"), measured(evaluation)).answer is ClaimStatus.CONFIRMED


@pytest.mark.parametrize("part", ["", "build/torch-cuda"])
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [("torch_call.py", "scale", "2 * scale"), ("__init__.py", "Attention(", "print("), ("plan.py", "", "#")],
)
def test_a_hub_folder_with_edited_python_cannot_be_compared(
    part, file, old, new, evaluation, tmp_path
) -> None:
    hub = exported(measured(evaluation), tmp_path / "hub")
    in_file(hub / "build" / "torch-cuda" / file, old, new)
    verdict = judged(claimed(str(hub / part), "none.db"), measured(evaluation))

    assert (verdict.answer, len(verdict.reasons)) == (ClaimStatus.APART, 1)
    assert file in verdict.reasons[0]
    assert new in verdict.reasons[0]


def test_a_hub_folder_with_python_of_somebody_else_cannot_be_compared(evaluation, tmp_path) -> None:
    hub = exported(measured(evaluation), tmp_path / "hub")
    (hub / "build" / "torch-cuda" / "launch").mkdir()
    (hub / "build" / "torch-cuda" / "launch" / "__init__.py").write_text("")  # Python prefers it to launch.py
    verdict = judged(claimed(str(hub), "none.db"), measured(evaluation))

    assert verdict.answer is ClaimStatus.APART
    assert "launch/__init__.py is no file that this evoflash writes" in verdict.reasons[0]


def test_a_hub_folder_whose_card_was_rewritten_is_as_it_was(evaluation, tmp_path) -> None:
    hub = exported(measured(evaluation), tmp_path / "hub")
    (hub / "README.md").write_text("My kernel.")

    assert judged(claimed(str(hub), "none.db"), measured(evaluation)).answer is ClaimStatus.CONFIRMED


@pytest.mark.parametrize(("where", "key"), [("contract", "scale"), ("image", "launches"), ("", "licence")])
def test_a_launch_json_that_launches_otherwise_cannot_be_compared(where, key, evaluation, tmp_path) -> None:
    hub = exported(measured(evaluation), tmp_path / "hub")
    for path in hub.rglob("launch.json"):
        data = json.loads(path.read_text())
        (image,) = data["images"].values()
        del {"contract": data["contract"], "image": image, "": data}[where][key]
        path.write_text(json.dumps(data, indent=2) + "\n")
    verdict = judged(claimed(str(hub), "none.db"), measured(evaluation))

    assert verdict.answer is ClaimStatus.APART
    assert "edited" in verdict.reasons[0]


def test_nothing_of_a_python_file_is_run(evaluation, tmp_path) -> None:
    path = exported(measured(evaluation), tmp_path / "attention.py")
    path.write_text(path.read_text() + "raise SystemExit(9)\n")

    assert claimed(str(path), "none.db").genome_id == evaluation.genome.id


@pytest.mark.parametrize(
    "text", ["", "x = 1", "def f(:", "DESCRIPTION = open('x')\n_CUBINS = {}", "DESCRIPTION = 1"]
)
def test_a_python_file_that_is_no_export_is_refused_in_one_line(text, tmp_path) -> None:
    path = tmp_path / "other.py"
    path.write_text(text)

    with pytest.raises(UsageError, match="no Python file that `evoflash export` wrote") as refused:
        claimed(str(path), "none.db")
    assert "\n" not in str(refused.value)


def test_a_configuration_of_t4_results_is_a_claim(evaluation, tmp_path) -> None:
    params = load_family(evaluation.genome.family).params
    path = tmp_path / "t4.json"
    path.write_text(json.dumps(t4_results(params, [measured(evaluation)], {})))
    claim = claimed(str(path), "none.db")

    assert (claim.genome_id, claim.problem, claim.gpu) == (evaluation.genome.id, evaluation.problem, "l4")
    assert claim.time_us == pytest.approx(20.0)
    assert judged(claim, measured(evaluation)).answer is ClaimStatus.CONFIRMED


def test_t4_results_of_another_tuner_name_no_family(tmp_path) -> None:
    path = tmp_path / "t4.json"
    path.write_text(json.dumps({"results": [{"configuration": {"block": 1}}]}))

    with pytest.raises(UsageError, match="does not name its family"):
        claimed(str(path), "none.db")


def test_a_folder_with_another_cubin_is_refuted(evaluation, tmp_path) -> None:
    cubin = exported(measured(evaluation), tmp_path / "kernel.cubin")
    cubin.write_bytes(cubin.read_bytes()[:-1] + b"x")
    claim = claimed(str(tmp_path), "none.db")

    assert "its sha256 is another" in claim.faults[0]
    assert judge(claim, find_out(claim, "none.db", argv=())).answer is ClaimStatus.REFUTED
    cubin.unlink()
    assert "is not there" in claimed(str(tmp_path), "none.db").faults[0]


@pytest.mark.parametrize("is_code", [True, False])
@pytest.mark.full
def test_a_folder_with_something_else_in_place_of_its_machine_code_is_refuted(
    is_code, evaluation, tmp_path, database
) -> None:
    """Also where its description was made to fit the file: another kernel, or no cubin at all."""
    other = evaluate.of_words(None, "flash_wmma", ["block_n=64"], problem="mission", gpu="l4", db=database)
    build = evaluate.evaluate(other, "emulated", database, argv=()).evaluation.builds[0]
    content = Path(build.cubin_path).read_bytes() if is_code else b"no cubin"
    exported(measured(evaluation), tmp_path / "kernel.cubin").write_bytes(content)
    data = json.loads((tmp_path / "kernel.json").read_text())
    (image,) = data["images"].values()
    image["sha256"] = hashlib.sha256(content).hexdigest()
    (tmp_path / "kernel.json").write_text(json.dumps(data))
    verdict = judged(claimed(str(tmp_path), "none.db"), measured(evaluation))

    assert verdict.answer is ClaimStatus.REFUTED
    assert ("machine code has another hash" if is_code else "no machine code") in verdict.reasons[0]


def test_a_folder_without_a_launch_json_or_with_two_kernels_is_refused(evaluation, tmp_path) -> None:
    with pytest.raises(UsageError, match="holds none"):
        claimed(str(tmp_path), "none.db")
    exported(measured(evaluation), tmp_path / "a.cubin")
    exported(measured(evaluation, 21.0), tmp_path / "b.cubin")
    with pytest.raises(UsageError, match="2 that differ"):
        claimed(str(tmp_path), "none.db")


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan"), float("inf")])
def test_a_margin_that_is_no_share_is_refused(share) -> None:
    with pytest.raises(UsageError, match="--within"):
        parse_tolerance(share)


@pytest.mark.parametrize("width", [60, 80, 140])
def test_both_sides_stand_beside_one_another_at_any_width(width, evaluation) -> None:
    claim = of_evaluation(measured(evaluation, 20.0), "kernel.json")
    found = Reproduction(identify(claim), How.MEASURED, measured(evaluation, 31.25), MACHINE, "l4")
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    report.print_verdict(Verification(claim, found, judge(claim, found)), console)
    text = console.file.getvalue()

    assert all(len(line) <= width for line in text.splitlines())
    assert "20 us" in text
    assert "31.25 us [" in text
    assert "not confirmed: 20 us are claimed" in text
