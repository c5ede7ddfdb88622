"""What was measured goes before what was estimated, in `show`, `leaderboard` and `report`; ties are named."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from evoflash.app.best import best
from evoflash.app.kernel_lookup import known_kernel
from evoflash.app.leaderboard import leaderboard
from evoflash.app.report.collect import report
from evoflash.champions.evidence import archived_for
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.exports.claims import claims, facts
from evoflash.exports.exported import ExportRequest, with_evaluation
from evoflash.kernels.family import load_family
from evoflash.notices import heard_by
from evoflash.perf_model import model_version
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.views.kernel import describe
from evoflash.views.leaderboard import as_markdown, notes

H200, WHAT = load_gpu("h200"), parse_problem("gqa4k_d128,causal")
PROBLEM, OTHER = str(WHAT), str(parse_problem("mission"))
KNOWN = archived_for(PROBLEM, "h200")
assert KNOWN is not None
ID = KNOWN.genome.id  # changes where its family learns a gene that it has


def near(count: int) -> list[Genome]:
    """Kernels of the archived one's family, none of them archived for PROBLEM."""
    family = load_family(KNOWN.genome.family)
    space = family.space(WHAT.compile_keys(H200.arch), H200)
    found = (each for each in space.neighbours(KNOWN.genome) if space.is_valid(each))
    return [each for each in found if each != KNOWN.genome][:count]


def estimate(
    genome: Genome, us: float, *, status: Status = Status.CORRECT, problem: str = PROBLEM
) -> Evaluation:
    timing = Timing(problem, "model", us, us, us, 1)
    rung = Rung.DONE if status is Status.CORRECT else Rung.TIMING
    return Evaluation(
        genome,
        problem,
        "h200",
        Basis.ESTIMATED,
        status,
        rung,
        timings=(timing,),
        score_us=us,
        model_version=model_version(),
    )


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> str:
    """A search that began with the archive's kernel and estimates another one as the faster; ties, too."""
    path = str(tmp_path_factory.mktemp("measured") / "evoflash.db")
    faster, equal, screened, slow = near(4)
    with open_store(path) as store:
        outcomes = [
            (estimate(KNOWN.genome, 961.41), "seed"),
            (estimate(faster, 836.271), "one_gene"),
            (estimate(equal, 836.268), "one_gene"),
            (estimate(screened, 850.0, status=Status.SCREENED), "one_gene"),
            (estimate(slow, 1400.0), "one_gene"),
        ]
        for what, seed in ((PROBLEM, 0), (PROBLEM, 1), (OTHER, 0)):
            key = RunKey(what, "h200", Basis.ESTIMATED, "surrogate", seed)
            run = store.begin(key, gpu_hash="x", budget=5, argv=["search"], environment={})
            for evaluation, operator in outcomes:
                timed = tuple(replace(each, workload=what) for each in evaluation.timings)
                mine = replace(evaluation, problem=what, timings=timed)
                store.add(run, mine, Proposal(mine.genome, operator))
    return path


# ---- show


def test_show_says_the_archived_time_with_its_rivals_and_the_estimate_beside_it(database) -> None:
    said = describe(known_kernel(ID, database, problem=PROBLEM))

    assert "time      786.65 us, archived, measured on NVIDIA H200, 2026-11-22" in said
    assert "bridged by way of cuDNN fa3 821.68 us" in said
    assert re.search(r"^estimate  ~961\.41 us ESTIMATED .*, 22 % more than measured$", said, re.MULTILINE)
    assert said.count("kernel    ") == 1  # two searches that said the same


def test_show_takes_problem_and_gpu_and_says_for_what_else_there_is_something(database) -> None:
    newest, asked = (
        known_kernel(ID, database),
        known_kernel(ID, database, problem="gqa4k_d128,causal"),
    )

    assert (newest.problem, asked.problem) == (OTHER, PROBLEM)
    assert f"also      evaluated with --problem {OTHER} --gpu h200" in describe(asked)
    with pytest.raises(UsageError, match=f"not evaluated for that; what is known is of --problem {OTHER}"):
        known_kernel(ID, database, problem="decode8k")


def test_the_printed_export_line_names_what_it_is_for(database) -> None:
    (line,) = re.findall(r"^again .*$", describe(known_kernel(ID, database, problem=PROBLEM)), re.MULTILINE)

    assert line.endswith(f" --problem {PROBLEM} --gpu h200")


def test_without_a_database_show_knows_the_archive(tmp_path: Path) -> None:
    kernel = known_kernel(ID, str(tmp_path / "none.db"))

    assert "time      786.65 us, archived, measured on" in describe(kernel)
    assert "ESTIMATED" not in describe(kernel)
    (told,) = kernel.as_dicts()
    assert (told["basis"], told["archived"]["bridged_us"]) == (
        "archived",
        {"fa3": pytest.approx(821.68, abs=0.01)},
    )


# ---- exports


@pytest.mark.parametrize("has_database", [True, False])
def test_an_export_of_an_archived_kernel_says_where_it_was_measured(database, tmp_path, has_database) -> None:
    asked = ExportRequest(KNOWN.genome, WHAT, H200)

    exported = with_evaluation(asked, database if has_database else str(tmp_path / "none.db"))
    said = claims(exported)

    assert said["timings"][0]["median_us"] == KNOWN.us
    assert said["timings"][0]["basis"] == "archived: measured on NVIDIA H200, 2026-11-22"
    assert said["verified"]["basis"] == "archived"
    described = said | {
        "operation": "attention",
        "kernel": {"values": {}, "family": "", "genome": ""},
        "contract": {
            "operation": "attention",
            "causal": True,
            "dtype": "fp16",
            "head_dim": 128,
            "gqa_ratio": 4,
        },
        **{"images": {}, "command": ""},
    }
    words = "\n".join(text for _, text in facts(described))
    assert "checked and measured on NVIDIA H200, 2026-11-22, for the archive" in words
    assert "never" not in words


@pytest.mark.parametrize("asks", [{}, {"problem": PROBLEM}, {"problem": PROBLEM, "run": "2"}])
def test_a_kernel_measured_on_another_gpu_is_named_beside_an_estimate(tmp_path, asks) -> None:
    path, (measured, estimated) = str(tmp_path / "evoflash.db"), near(2)
    timing = Timing(PROBLEM, "final-cold", 900.0, 899.0, 901.0, 20)
    slow = replace(
        estimate(measured, 900.0), gpu="h100", basis=Basis.MEASURED, timings=(timing,), model_version=""
    )
    with open_store(path) as store:
        for each in (slow, replace(estimate(estimated, 5.0), gpu="l4")):
            key = RunKey(PROBLEM, each.gpu, each.basis, "surrogate", 0)
            run = store.begin(key, gpu_hash="x", budget=5, argv=["search"], environment={})
            store.add(run, each, Proposal(each.genome, "one_gene"))

    said: list[str] = []
    with heard_by(said.append):
        found = best(path, **{"problem": None, "gpu": None, "archive": False, "argv": [], **asks})

    assert found.genome == estimated
    assert said[-1] == f"{measured.id} was measured for it on h100: --gpu h100 shows it."


# ---- leaderboard


def test_what_the_archive_measured_stands_before_the_estimates(database) -> None:
    table, _ = leaderboard([database], problem=PROBLEM)

    rows = [(row["basis"], row["rank"], row["name"]) for row in table.as_dicts()]
    assert rows[:4] == [
        ("archived", 1, "flash_wgmma"),
        ("archived", 2, "fa3 (bridged)"),
        ("archived", 3, "fa4_tuned"),
        ("archived", 4, "sdpa_cudnn"),
    ]
    assert {basis for basis, *_ in rows[4:]} == {"estimated"}
    (run,) = {each["run"] for each in table.as_dict()["runs"]}
    assert run in (1, 2)
    said = as_markdown(table)
    assert f"{ID} was measured: 786.65 us" in said
    assert "the model says 22 % more." in said
    assert "1 other kernel shown ties with the fastest: equal estimates of ~836.3 us." in said


def test_json_says_how_far_an_estimate_is_off_and_where_that_was_measured(database) -> None:
    table, _ = leaderboard([database], problem=PROBLEM)
    rows = [row for row in table.with_genes() if row["basis"] == "estimated"]
    elsewhere = replace(estimate(KNOWN.genome, 5.0), gpu="l4").as_dict()

    assert all(row["likely_from"].startswith("of ") and row["likely_us"] for row in rows)
    assert elsewhere["likely_from"].startswith("for l4 nothing was measured; of ")
    assert replace(estimate(KNOWN.genome, 5.0), model_version="").as_dict()["likely_from"] is None


def test_a_ranking_of_several_families_states_the_error_of_each(database) -> None:
    first = next(
        row for row in leaderboard([database], problem=PROBLEM)[0].with_genes() if row["basis"] == "estimated"
    )
    names = [first["name"], "flash_mma", first["name"], "flash_simt"]
    rows = [
        {**first, "name": name, "score_us": us} for name, us in zip(names, (3.0, 2.0, 4.0, 1.0), strict=True)
    ]

    said = [line for line in notes(rows) if "Kendall" in line]

    assert [re.search(r"of \d+ (\w+) kernels", line.lower()).group(1) for line in said] == [
        "flash_simt",
        "flash_mma",
        first["name"],
    ]


def test_what_was_never_searched_is_answered_by_the_archive_alone(database) -> None:
    table, _ = leaderboard([database], problem=str(parse_problem("decode8k")), gpu="h200")

    assert {row["basis"] for row in table.as_dicts()} == {"archived"}
    assert table.as_dict()["runs"] == []


# ---- report


def test_a_report_speaks_of_the_seeds_measured_time_and_of_ties(database) -> None:
    found = report(database, "1").as_dict()
    verdict, said = found["verdict"], "\n".join(found["verdict"]["says"])

    assert (verdict["us"], verdict["measured_us"]) == (836.268, None)
    assert verdict["seed_measured_us"] == KNOWN.us
    assert verdict["likely_us"][0] < verdict["us"] < verdict["likely_us"][1]
    assert verdict["over_seed"] is None  # an estimate over a measured time is no ratio
    assert f"The archive has {ID}, the fastest seed, measured for this: 786.65 us" in said
    assert "Of that kernel the model says ~961.41 us, 22 % more." in said
    assert "No measurement says that the winner is faster" in said
    assert "fa3 821.68 us" in said
    assert "1 other kernel ties with the fastest: equal estimates of ~836.3 us." in said
    assert "1 more is nearer to the fastest than the model's error" in said
    assert "1 of these was screened" in said
    assert [tie["status"] for tie in verdict["ties"]] == ["correct", "screened"]
    assert [each["measured_us"] for each in found["candidates"]] == [KNOWN.us, None, None, None, None]


def test_a_screened_candidate_passed_no_rung_that_proves_it(database) -> None:
    reached = {each["rung"]: each for each in report(database, "1").as_dict()["reached"]}

    assert list(reached) == ["checks", "render", "compile", "first look", "preflight", "done"]
    assert (reached["first look"]["reached"], reached["first look"]["screened"]) == (5, 1)
    assert (reached["preflight"]["reached"], reached["done"]["reached"]) == (4, 4)


def test_a_kernel_has_one_tflops_in_a_report(database) -> None:
    found = report(database, "1").as_dict()

    (winner,) = (point for point in found["rooflines"][0]["points"] if point["kind"] == "winner")
    assert winner["tflops"] == pytest.approx(found["verdict"]["tflops"], rel=1e-9)
