"""The shipped archive: what is in it, which searches start from it, and that `best` checks it."""

import json
import logging
import re
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from forked import evoflash
from places import ROOT, TEMPLATES

from evoflash import champions as champion
from evoflash.app import best as archived
from evoflash.app import evaluate as evaluating
from evoflash.app import insights
from evoflash.app.search import plan as planning
from evoflash.app.search.proposing import strategy_of
from evoflash.champions import (
    Champion,
    adapt,
    champions,
    distance,
    family_shares_near,
    of_today,
    past_searches,
    read_champions,
    starts,
)
from evoflash.errors import NoKernelError, UsageError
from evoflash.evaluation import FINAL, Baseline, Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.evaluators.emulated import EmulatedEvaluator
from evoflash.kernels.family import load_family
from evoflash.notices import heard_by
from evoflash.paths import CHAMPIONS
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome, SearchSpace
from evoflash.specs import known_gpus, load_gpu
from evoflash.store.store import open_store
from evoflash.views.kernel import describe_best
from scripts.pages import champions as script
from scripts.records import read_record

H200 = load_gpu("h200")
MISSION = parse_problem("mission")
SHIPPED = [path for path in sorted(CHAMPIONS.glob("*.toml")) if read_champions(path)]
RECORDED = [each for path in SHIPPED for each in read_champions(path) if each.source.endswith(".json")]
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++")


def space_of(problem: Problem, family: str = "flash_mma") -> SearchSpace:
    return load_family(family).space(problem.compile_keys(H200.arch), H200)


def champion_of(
    problem: str = "mission", *, us: float = 5.0, version: int | None = None, **values
) -> Champion:
    """A champion of flash_mma on the H200, by default with every gene at its first valid value."""
    what = parse_problem(problem)
    genome = space_of(what).genome({"block_n": 64, "layout": "xor128", "warps": 4, **values})
    if version is not None:
        genome = replace(genome, version=version)
    return Champion(
        str(what),
        "h200",
        genome,
        device="NVIDIA H200",
        date="2026-11-21",
        evoflash="0.1.0",
        protocol="final-cold",
        us=us,
        rivals_us={"sdpa_flash": 2 * us},
        source="made up",
        command="none",
    )


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """`archive(champion, ...)`: what is shipped for the H200, until the test's end."""

    def ship(*entries: Champion) -> None:
        (tmp_path / "h200.toml").write_text(script.as_toml(entries))
        champions.cache_clear()

    monkeypatch.setattr(champion, "CHAMPIONS", tmp_path)
    champions.cache_clear()
    champion.archives.cache_clear()
    yield ship
    champions.cache_clear()
    champion.archives.cache_clear()


# What is shipped


def test_something_is_shipped_and_only_for_known_gpus() -> None:
    assert RECORDED
    assert {path.stem for path in SHIPPED} <= set(known_gpus())


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: f"{entry.gpu} {entry.problem}")
def test_each_figure_is_its_sources(entry: Champion) -> None:
    said = script.champions_of(str(ROOT / entry.source), load_gpu(entry.gpu))

    assert entry in [replace(each, source=entry.source) for each in said]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_each_file_is_as_the_script_writes_it(path: Path) -> None:
    found = read_champions(path)

    kept = script.fastest(found, is_current=lambda _: True)
    assert script.as_toml(kept, starts_from="".join(champion.archives(path.stem)[1:])) == path.read_text()


def test_values_that_were_edited_by_hand_are_refused(tmp_path) -> None:
    text = script.as_toml([champion_of(warps=4)])
    (tmp_path / "h200.toml").write_text(text.replace("warps = 4", "warps = 8"))

    with pytest.raises(UsageError, match=r"make the file anew\.$"):
        read_champions(tmp_path / "h200.toml")


def test_a_gpu_without_an_archive_has_no_champions(archive) -> None:
    archive(champion_of())

    assert champions("l4") == ()
    assert len(champions("h200")) == 1


# Which are near


def far(a: str, b: str) -> float:
    return distance(parse_problem(a), parse_problem(b))


def test_a_problem_is_at_no_distance_from_itself_and_distances_are_mutual() -> None:
    assert far("gqa4k_d128,causal", "gqa4k_d128,causal") == 0
    assert far("mission", "s1k_d64,causal") == far("s1k_d64,causal", "mission") > 0


def test_each_property_costs_what_the_documentation_says() -> None:
    assert far("mission", "mission,causal") == 1.0
    assert far("mission", "mission,dtype=bf16") == 0.5
    assert far("mission", "mission,acc=fp16") == 1.0
    assert far("mission", "mission,d=128") == 4.0
    assert far("mission", "seed_long") == 1.0  # twice the rows and twice the keys
    assert far("b=1,h=8,s=512,d=64", "b=1,h=8,hkv=2,s=512,d=64") == 1.0  # two octaves of heads a group
    assert far("b=4,h=8,s=512,d=64", "b=1,h=32,s=512,d=64") == 0.0


def test_of_several_workloads_each_counts_with_its_nearest() -> None:
    assert far("mission+seed_long", "mission") == 0.5
    assert far("mission", "mission+seed_long") == 0.0


def test_a_search_starts_from_the_nearest_and_from_few(archive) -> None:
    by_distance = ("mission", "mission,dtype=bf16", "seed_long", "seed_long,causal")
    entries = [champion_of(name, k_stages=stages) for stages, name in enumerate(by_distance, 1)]
    archive(*reversed(entries))

    found = starts(MISSION, space_of(MISSION), "h200")

    assert [dict(genome.values)["k_stages"] for genome in found] == [1, 2, 3]
    assert champion.MOST == 3


def test_a_search_starts_from_what_won_on_the_gpu_that_its_own_gpus_archive_names(archive, tmp_path) -> None:
    archive(champion_of("mission"))
    assert starts(MISSION, space_of(MISSION), "h100") == ()

    (tmp_path / "h100.toml").write_text('starts_from = "h200"')
    champion.archives.cache_clear()
    champions.cache_clear()

    assert starts(MISSION, space_of(MISSION), "h100") == starts(MISSION, space_of(MISSION), "h200") != ()
    assert family_shares_near(MISSION, "h100") == family_shares_near(MISSION, "h200") != {}
    assert champion.champion_of(MISSION, "h100") is None, "its times are another GPU's"


def read(gpu: str) -> tuple[past_searches.PastSearch, ...]:
    return past_searches.read_past_searches(CHAMPIONS / f"{gpu}_searches.json.gz")


def test_the_h100_and_the_h200_start_and_learn_from_each_other_their_own_first() -> None:
    mine, theirs = load_gpu("h100"), load_gpu("h200")
    assert champion.archives(mine.name) == (mine.name, theirs.name)
    assert champion.archives(theirs.name) == (theirs.name, mine.name)
    figures = ("arch", "sm_count", "smem_per_block", "regs_per_sm", "threads_per_sm")
    assert all(getattr(mine, name) == getattr(theirs, name) for name in figures)
    of_h100, of_h200 = (past_searches.near(MISSION, name, 200) for name in (mine.name, theirs.name))
    assert set(of_h100) == set(of_h200)
    both = {each.problem for each in read(mine.name)} & {each.problem for each in read(theirs.name)}
    assert both
    for problem in both:
        assert past_searches.past_search(mine.name, problem) in read(mine.name)
        assert past_searches.past_search(theirs.name, problem) in read(theirs.name)
    assert past_searches.past_search(mine.name, "no problem") is None


def test_what_is_too_far_or_of_another_family_is_not_tried(archive) -> None:
    archive(champion_of("s2k_d128"))

    assert starts(MISSION, space_of(MISSION), "h200") == ()
    s4k = parse_problem("s4k_d128")
    assert starts(s4k, space_of(s4k, "flash_simt"), "h200") == ()
    assert len(starts(s4k, space_of(s4k), "h200")) == 1


def test_a_genome_is_completed_for_the_other_mask(archive) -> None:
    entry = champion_of("mission")
    causal = parse_problem("mission,causal")
    archive(entry)

    (genome,) = starts(causal, space_of(causal), "h200")

    assert space_of(causal).is_valid(genome)
    assert entry.genome.as_dict().items() <= genome.as_dict().items()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (champion_of(version=1), "version 1 of flash_mma"),
        (champion_of(rows_per_warp=64, block_n=128), "it fails"),
    ],
)
def test_a_genome_that_is_none_any_more_is_left_out_with_a_line_in_the_log(
    archive, caplog, entry, reason
) -> None:
    archive(entry)

    with caplog.at_level(logging.INFO, logger="evoflash"):
        assert starts(MISSION, space_of(MISSION), "h200") == ()

    assert reason in caplog.text


def test_a_gene_that_is_no_more_leaves_the_genome_out(archive) -> None:
    entry = champion_of()
    values = tuple(sorted({**entry.genome.as_dict(), "telepathy": "on"}.items()))
    archive(replace(entry, genome=replace(entry.genome, values=values)))

    assert starts(MISSION, space_of(MISSION), "h200") == ()


# Searches


def plan(
    *,
    archive: bool,
    strategy: str = "evolution",
    family: str | None = "flash_mma",
    seeds: int | None = None,
) -> planning.SearchPlan:
    where = {"gpu": "h200", "problem": "mission", "evaluator": "emulated"}
    return planning.plan(**where, strategy=strategy, seed=0, family=family, archive=archive, seeds=seeds)


def test_the_archive_comes_first_among_the_seeds_and_names_the_run(archive) -> None:
    entry = champion_of(k_stages=2, waits="separate", v_stages=2)
    archive(entry)

    with_it, without = plan(archive=True), plan(archive=False)

    assert with_it.fields[0].seeds == (entry.genome, *without.fields[0].seeds)
    assert strategy_of(with_it).ask() == Proposal(entry.genome, "seed")
    assert strategy_of(without).ask() != Proposal(entry.genome, "seed")
    assert with_it.key.search_name == "evolution+archive/flash_mma"
    assert without.key.search_name == "evolution/flash_mma"


@pytest.mark.parametrize("strategy", ["uniform", "exhaustive"])
def test_strategies_without_seeds_do_not_claim_to_use_it(archive, strategy) -> None:
    archive(champion_of())

    assert plan(archive=True, strategy=strategy).key.search_name == f"{strategy}/flash_mma"


def test_of_the_families_own_seeds_so_many_stay_and_the_archive_besides(archive) -> None:
    entry = champion_of(k_stages=2, waits="separate", v_stages=2)
    archive(entry)
    own = plan(archive=False, family=None)

    one, none = plan(archive=False, family=None, seeds=1), plan(archive=True, seeds=0)

    assert [field.seeds for field in one.fields] == [field.seeds[:1] for field in own.fields]
    assert max(len(field.seeds) for field in own.fields) > 1
    assert (one.key.search_name, own.key.search_name) == ("evolution-seeds=1", "evolution")
    named = plan(archive=False, strategy="evolution:full:islands").key
    assert (named.strategy, named.preset, named.population) == ("evolution", "full", "islands")
    assert none.fields[0].seeds == (entry.genome,)
    assert none.key.search_name == "evolution+archive-seeds=0/flash_mma"


@pytest.mark.parametrize("strategy", ["uniform", "exhaustive"])
def test_so_many_seeds_of_a_strategy_without_seeds_are_refused(strategy) -> None:
    with pytest.raises(UsageError, match=f"{strategy} starts from no seeds: leave --seeds out"):
        plan(archive=False, strategy=strategy, seeds=1)


@pytest.mark.parametrize("strategy", ["evolution", "surrogate", "tpe", "nsga2"])
def test_strategies_with_seeds_begin_with_it(archive, strategy) -> None:
    entry = champion_of(k_stages=2, waits="separate", v_stages=2)
    archive(entry)

    made = plan(archive=True, strategy=strategy)

    assert strategy_of(made).ask() == Proposal(entry.genome, "seed")
    assert made.key.search_name == f"{strategy}+archive/flash_mma"


@pytest.mark.slow
@needs_gxx
@pytest.mark.full
def test_the_run_records_what_it_started_from(tmp_path) -> None:
    db = tmp_path / "a.db"
    command = ("search", "--gpu", "h200", "--evaluator", "emulated", "--family", "flash_mma", "--budget", "1")

    done = evoflash(*command, "--json", "--db", str(db))

    shipped = starts(MISSION, space_of(MISSION), "h200")
    assert done.returncode == 0, done.stderr
    assert f"starting from {len(shipped)} archived kernels" in done.stderr
    assert json.loads(done.stdout)["best"]["genome"]["id"] == shipped[0].id
    with sqlite3.connect(db) as connection:
        ((archive,),) = connection.execute("select archive_json from runs")
        ((strategy,),) = connection.execute("select strategy from leaderboard")
    assert strategy == "surrogate+archive/flash_mma"
    assert json.loads(archive) == [genome.id for genome in shipped]


# What `best` answers


@pytest.fixture
def nobody(monkeypatch):
    """No GPU, also on a machine that has one: the answer is the emulator's."""
    monkeypatch.setattr(archived, "present_spec", absent)


def absent(gpu: str | None) -> None:
    from evoflash.errors import DeviceError

    raise DeviceError("none here: no matter.")


def ask(db: Path, **options) -> archived.BestKernel:
    return archived.best(
        str(db), **{"problem": "mission", "gpu": "h200", "archive": None, "argv": []} | options
    )


@needs_gxx
def test_without_the_gpu_the_answer_is_checked_and_its_time_marked_as_archived_and_no_score(
    tmp_path, nobody
) -> None:
    (known,) = (each for each in champions("h200") if each.problem == str(MISSION))

    answer = ask(tmp_path / "none.db")

    assert answer.genome == adapt(known, space_of(MISSION, known.genome.family))
    assert f"{known.us:.2f} us, archived, measured on NVIDIA H200, {known.date}" in describe_best(answer)
    assert re.search(r"checked   \d+ shapes, all passed", describe_best(answer))
    assert "estimated" not in describe_best(answer).lower()
    assert not (tmp_path / "none.db").exists()
    found = json.loads(json.dumps(answer.as_dict()))
    assert (found["basis"], found["score_us"], found["rung"]) == ("archived", None, "preflight")
    assert (found["archived"]["us"], found["archived"]["device"]) == (known.us, "NVIDIA H200")
    assert found["verdicts"]
    assert "timings" not in found


@pytest.mark.slow
@needs_gxx
@pytest.mark.full
def test_the_answer_exports_the_same_bytes_as_its_command(tmp_path, nobody) -> None:
    answer = ask(tmp_path / "none.db")

    (line,) = re.findall(r"^again     evoflash (export .*)$", describe_best(answer), flags=re.MULTILINE)

    assert evoflash(*line.split()).stdout == answer.cuda()


@needs_gxx
def test_an_archived_kernel_that_is_wrong_is_not_answered(archive, tmp_path, use_templates, nobody) -> None:
    use_templates(TEMPLATES)
    what = parse_problem("b=1,h=2,s=64,d=64")
    space = space_of(what, "planted")
    for fault, is_right in (("overrun", False), ("none", True)):
        genome = space.genome({"fault": fault, "block_m": 32})
        archive(replace(champion_of(), problem=str(what), genome=genome))
        if is_right:
            assert ask(tmp_path / "none.db", problem=str(what)).genome == genome
        else:
            with pytest.raises(
                NoKernelError, match=r"is not right here \(.*preflight.*run `evoflash search`"
            ):
                ask(tmp_path / "none.db", problem=str(what))


def stored(db: Path, basis: Basis, score_us: float, *, seed: int = 0) -> Genome:
    """A kernel of that basis in the database, timed again where it is measured."""
    protocol = "model" if basis is Basis.ESTIMATED else "final-cold"
    genome = space_of(MISSION).genome({"block_n": 32})
    timing = Timing(str(MISSION), protocol, score_us, score_us, score_us, 9)
    evaluation = Evaluation(
        genome,
        str(MISSION),
        "h200",
        basis,
        Status.CORRECT,
        Rung.DONE,
        timings=(timing,),
        score_us=score_us,
        environment={"gpu": "NVIDIA H200"},
    )
    with open_store(str(db)) as store:
        key = RunKey(str(MISSION), "h200", basis, "evolution", seed)
        run = store.begin(
            key, gpu_hash="x", budget=1, argv=["search", "--problem", "mission"], environment={}
        )
        store.add(run, evaluation, Proposal(genome))
        if basis is Basis.MEASURED:
            theirs = replace(timing, median_us=3 * score_us)
            hot = replace(timing, protocol="final-hot", median_us=2 * score_us)
            baseline = Baseline("sdpa_flash", str(MISSION), "h200", (theirs, hot), 3 * score_us)
            store.add_baseline(run, baseline)
    return genome


def test_what_the_database_measured_comes_before_the_archive(tmp_path, nobody, said) -> None:
    genome = stored(tmp_path / "a.db", Basis.MEASURED, 9.0)

    assert ask(tmp_path / "a.db").genome == genome
    assert "archive" not in "".join(said)


@pytest.mark.slow
@needs_gxx
@pytest.mark.parametrize("asked", [{}, {"problem": None, "gpu": None}], ids=["named", "newest"])
@pytest.mark.sample(1)
def test_the_archives_measured_kernel_goes_before_an_estimate_of_ones_own(tmp_path, nobody, asked) -> None:
    stored(tmp_path / "a.db", Basis.ESTIMATED, 9.0)
    known = champion.champion_of(MISSION, "h200")
    assert known is not None

    answer = ask(tmp_path / "a.db", **asked)

    assert answer.genome == adapt(known, space_of(MISSION, known.genome.family))
    assert f"time      {known.us:.2f} us, archived, measured on" in describe_best(answer)
    assert re.search(
        r"^estimate  [0-9a-f]{16} of the database is ~9\.00 us ESTIMATED", describe_best(answer), re.M
    )
    assert answer.as_dict()["estimated"]["score_us"] == 9.0


def test_an_estimate_that_is_asked_for_names_the_archives_time(tmp_path, nobody, said) -> None:
    genome = stored(tmp_path / "a.db", Basis.ESTIMATED, 9.0)
    known = champion.champion_of(MISSION, "h200")
    assert known is not None

    answer = ask(tmp_path / "a.db", archive=False)

    assert (answer.genome, answer.archived) == (genome, None)
    assert f"the archive has {known.genome.id}, {known.us:.2f} us, archived, measured on" in "".join(said)
    assert "all there is" not in "".join(said)


def test_who_names_no_gpu_is_told_which_archive_has_the_problem(tmp_path, nobody) -> None:
    with pytest.raises(
        NoKernelError, match=r"'mission' in the database; the archive has one: add --gpu h100 or --gpu h200"
    ):
        ask(tmp_path / "none.db", gpu=None)


def test_bridged_libraries_stand_beside_an_archived_time() -> None:
    known = champion.champion_of(parse_problem("gqa4k_d128,causal"), "h200")
    assert known is not None

    assert known.fastest_rival == ("fa3", pytest.approx(821.68, abs=0.005))
    assert known.rivals_in_words.endswith(
        "; bridged by way of cuDNN fa3 821.68 us; the fastest of them, fa3, takes 1.04 times as long"
    )


def test_what_nobody_knows_is_an_error_that_says_what_to_do(tmp_path, nobody) -> None:
    stored(tmp_path / "a.db", Basis.MEASURED, 9.0)

    with pytest.raises(NoKernelError, match="no kernel for 'b=3,h=3,s=333,d=80' on h200"):
        ask(tmp_path / "a.db", problem="b=3,h=3,s=333,d=80", archive=True)
    with pytest.raises(NoKernelError, match="run `evoflash search` first"):
        ask(tmp_path / "a.db", problem="seed_long", archive=False)
    with pytest.raises(UsageError, match="add --problem"):
        ask(tmp_path / "none.db", problem=None, archive=True)


class EmulatorInItsPlace(EmulatedEvaluator):
    """Stands where the GPU would be: what it times counts as measured, and there are no finals."""

    basis = Basis.MEASURED
    model_version = ""

    def __init__(self, *given, proves_all, **named):
        assert proves_all
        super().__init__(*given, **named)


@pytest.fixture
def said() -> Iterator[list[str]]:
    """The notes so far."""
    notes: list[str] = []
    with heard_by(notes.append):
        yield notes


@pytest.fixture
def present(monkeypatch):
    """An H200 here, as far as the archive can tell."""
    monkeypatch.setattr(archived, "present_spec", lambda _: H200)
    monkeypatch.setattr(evaluating, "MeasuredEvaluator", EmulatorInItsPlace)


@needs_gxx
def test_where_the_gpu_is_it_is_measured_and_stored_as_a_run_of_its_own(tmp_path, present, said) -> None:
    db = tmp_path / "a.db"

    first, again = ask(db, gpu=None), ask(db, gpu=None)

    (known,) = (each for each in champions("h200") if each.problem == str(MISSION))
    assert first.genome == again.genome == adapt(known, space_of(MISSION, known.genome.family))
    assert describe_best(first).splitlines()[-1] == (
        f"archive   {known.us:.2f} us, archived, measured on NVIDIA H200, {known.date}"
    )
    assert json.loads(json.dumps([first.as_dict()]))[0]["basis"] == "measured"
    assert "".join(said).count("checking it and timing it again here") == 1
    with open_store(str(db), read_only=True) as store:
        (run,) = store.runs()
        ((proposal, evaluation),) = store.history(run)
        with pytest.raises(NoKernelError, match="no search"):
            insights.read_insights(store)
    assert (run.key.strategy, proposal.operator, evaluation.basis) == ("archive", "archive", Basis.MEASURED)
    assert evaluation.score_us != known.us


@needs_gxx
def test_where_the_gpu_is_a_wrong_one_is_no_answer_but_its_run_is_kept(
    archive, tmp_path, use_templates, present
) -> None:
    use_templates(TEMPLATES)
    what = parse_problem("b=1,h=2,s=64,d=64")
    genome = space_of(what, "planted").genome({"fault": "overrun", "block_m": 32})
    archive(replace(champion_of(), problem=str(what), genome=genome))

    with pytest.raises(NoKernelError, match="is not right here"):
        ask(tmp_path / "a.db", problem=str(what))

    with open_store(str(tmp_path / "a.db"), read_only=True) as store:
        ((_, evaluation),) = store.history(store.runs()[0])
    assert not evaluation.is_correct


def test_a_gene_that_came_later_stands_at_its_first_value() -> None:
    """It is the kernel that was measured; and one of whose genes there is no more is another."""
    known = champion_of()
    values, later = known.genome.values, "exp_form"
    assert dict(values)[later] == load_family("flash_mma").space((), H200).param(later).values[0]
    before = Genome("flash_mma", known.genome.version, tuple(pair for pair in values if pair[0] != later))
    space = space_of(parse_problem(known.problem))

    assert of_today(replace(known, genome=before), space) == known
    more = Genome("flash_mma", known.genome.version, tuple(sorted((*values, ("lazy_tau", 8)))))
    assert of_today(replace(known, genome=more), space) is None


def test_a_genome_of_an_older_version_is_no_answer(archive, tmp_path, nobody) -> None:
    archive(champion_of(version=1))

    with pytest.raises(NoKernelError, match="the archive has no kernel"):
        ask(tmp_path / "none.db", archive=True)


# The script that makes it


def test_a_database_gives_its_finalists_with_the_baselines_of_their_run(tmp_path) -> None:
    genome = stored(tmp_path / "a.db", Basis.MEASURED, 7.0)
    stored(tmp_path / "a.db", Basis.ESTIMATED, 1.0)

    (found,) = script.champions_of(str(tmp_path / "a.db"), H200)

    assert (found.genome, found.us, found.protocol) == (genome, 7.0, "final-cold")
    assert found.rivals_us == {"sdpa_flash": 21.0}
    assert (found.device, found.problem) == ("NVIDIA H200", str(MISSION))
    assert found.command == "evoflash search --problem mission"
    assert found.source.startswith("a.db, run ")
    assert script.champions_of(str(tmp_path / "a.db"), load_gpu("l4")) == []


def test_the_fastest_of_a_problem_stays_and_present_versions_come_first() -> None:
    same = {"sdpa_cudnn": 10.0}  # they took as long in every run
    fast, slow, other, older = (
        replace(each, rivals_us=same)
        for each in (
            champion_of(us=5.0),
            champion_of(us=6.0, warps=8),
            champion_of("seed_long", us=9.0),
            champion_of(us=1.0, version=1),
        )
    )

    found = script.fastest([slow, older, other, fast], is_current=script.is_current)

    assert sorted(found, key=lambda each: each.us) == [fast, other]
    assert script.fastest([older], is_current=script.is_current) == [older]


def test_records_of_two_runs_are_compared_by_the_rival_that_both_timed() -> None:
    """5.0 us where cuDNN took 9, against 5.2 us where it took 10."""
    on_a_fast_day = replace(champion_of(us=5.0), rivals_us={"sdpa_cudnn": 9.0, "triton": 6.0})
    better = replace(champion_of(us=5.2, warps=8), rivals_us={"sdpa_cudnn": 10.0, "sdpa_flash": 6.0})

    assert script.fastest([on_a_fast_day, better], is_current=script.is_current) == [better]


def test_a_row_of_the_peers_table_gives_its_kernel_unless_it_failed(tmp_path) -> None:
    path = ROOT / "scripts" / "peers" / "records" / "peers-h200.json"
    record = read_record(path)
    good = [row for row in record["rows"] if not row["failure"]]

    found = script.champions_of(str(path), H200)

    assert [each.problem for each in found] == [str(parse_problem(row["row"])) for row in good]
    assert [each.us for each in found] == [
        next(t["median_us"] for t in row["timings"][row["ours"]["id"]] if t["protocol"] in FINAL)
        for row in good
    ]
    record["rows"] = good[:1]
    good[0]["wrong"] = {good[0]["ours"]["id"]: "wrong as it was timed"}
    (tmp_path / "wrong.json").write_text(json.dumps(record))
    assert script.champions_of(str(tmp_path / "wrong.json"), H200) == []


def test_a_winner_that_was_wrong_and_another_gpu_are_left_out() -> None:
    path = ROOT / "scripts" / "searches" / "records" / "search-h200-mission.json"
    record = read_record(path)
    winner = record["best"]["genome"]["id"]

    right = [each.genome.id for each in script._of_arms(record, "x", H200)]
    record["wrong"][winner] = ["faster than physics"]
    left = [each.genome.id for each in script._of_arms(record, "x", H200)]

    assert winner in right
    assert left == [each for each in right if each != winner]
    assert list(script._of_arms(record | {"gpu": "NVIDIA L4"}, "x", H200)) == []


def test_a_record_whose_values_were_changed_is_refused() -> None:
    path = ROOT / "scripts" / "searches" / "records" / "search-h200-mission.json"
    record = read_record(path)
    record["arms"]["evolution"]["winner"]["values"]["warps"] = 4

    with pytest.raises(UsageError, match="the record was changed"):
        list(script._of_arms(record, "x", H200))


def test_the_script_adds_to_what_the_file_holds_and_refuses_other_files(
    tmp_path, monkeypatch, capsys
) -> None:
    output = tmp_path / "h200.toml"
    output.write_text(script.as_toml([champion_of("seed_long", us=9.0), champion_of(us=8.0)]))
    stored(tmp_path / "a.db", Basis.MEASURED, 7.0)

    monkeypatch.setattr(sys, "argv", ["champions.py", str(tmp_path / "a.db"), "-o", str(output)])
    assert script.main() == 0
    assert sorted(each.us for each in read_champions(output)) == [7.0, 9.0]

    held = [replace(each, us=1.0, source="a.json") for each in read_champions(output)]
    output.write_text(script.as_toml(held))
    assert script._held(output, ["b.json"]) == held
    assert script._held(output, ["b.json", "a.json"]) == []

    output.write_text(script.as_toml([champion_of("seed_long", us=9.0), champion_of(us=7.0)]))
    monkeypatch.setattr(
        sys, "argv", ["champions.py", "scripts/families/records/sweep.json", "-o", str(output)]
    )
    assert script.main() == 1
    assert "leave it out" in capsys.readouterr().err
    assert sorted(each.us for each in read_champions(output)) == [7.0, 9.0]
