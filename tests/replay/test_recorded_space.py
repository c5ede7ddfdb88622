"""Recorded spaces and the Kernel Tuner files that they come from and go to."""

import copy
import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import FIXTURES
from tables import data, table_of_cases

from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Proposal, Rung, Status
from evoflash.replay.kernel_tuner import cache_text, read_recording, write_recording
from evoflash.replay.recorded_space import RecordedOutcome, Recording, ReplayedEvaluator, recorded_space
from evoflash.space import Check, Genome, Param, SearchSpace
from evoflash.strategies import make_strategy

FIXTURE = FIXTURES / "recorded.json.gz"

TILES = SearchSpace(
    family="tiles",
    version=3,
    params=(
        Param("block", (64, 16, 32)),
        Param("rescale", ("online", "lazy")),
        Param("tau", (4, 8)),
        Param("joint", (False, True)),
        Param("stages", (1, 2)),
    ),
    checks=(Check("fits", lambda v: v["block"] * v.get("stages", 1) <= 64),),
    when={"tau": lambda v: v["rescale"] == "lazy", "stages": lambda v: not v["joint"]},
)
ENDINGS = [
    RecordedOutcome(Status.CORRECT, Rung.DONE, "", 1 / 3, (0.3, 0.1 + 0.2), compile_s=0.7),
    RecordedOutcome(Status.CORRECT, Rung.TIMING, "", 99.0, is_lower_bound=True),
    *(
        RecordedOutcome(status, Rung.SMOKE, f"why {status}")
        for status in Status
        if status is not Status.CORRECT
    ),
    RecordedOutcome(Status.CORRECT, Rung.DONE, "", 4.0),
]


@pytest.fixture(scope="module")
def stencil() -> Recording:
    return read_recording(FIXTURE)


@pytest.fixture
def tiles() -> Recording:
    outcomes = {genome: ENDINGS[i % len(ENDINGS)] for i, genome in enumerate(TILES)}
    space = recorded_space("tiles", TILES.params, outcomes, version=3)
    return Recording(space, "b=1,h=8,s=512,d=64", "l4", Basis.ESTIMATED, (512, 8, 1), model_version="4")


def written(tmp_path: Path, change, name: str = "cache.json") -> Path:
    """A small whole cache file after `change` has had its way with the parsed JSON."""
    data = {
        "device_name": "G",
        "kernel_name": "k",
        "problem_size": [16, 4],
        "tune_params_keys": ["a", "b"],
        "tune_params": {"a": [1, 2], "b": ["x", "y"]},
        "objective": "time",
        "cache": {
            "1,x": {"a": 1, "b": "x", "time": 2.5, "times": [2.0, 3.0], "compile_time": 400.0},
            "2,y": {"a": 2, "b": "y", "time": "RuntimeFailedConfig"},
        },
    }
    change(data)
    path = tmp_path / name
    path.write_text(json.dumps(data))
    return path


def outcome_of(path: Path, **values) -> RecordedOutcome:
    return next(
        outcome
        for genome, outcome in read_recording(path).space.outcomes.items()
        if genome.as_dict() == values
    )


# ---- reading


def test_a_cache_gives_its_params_in_order_and_its_times_in_microseconds(tmp_path):
    recording = read_recording(written(tmp_path, lambda data: None))

    assert recording.space.params == (Param("a", (1, 2)), Param("b", ("x", "y")))
    assert (recording.problem, recording.device, recording.basis) == ("k 16x4", "G", Basis.MEASURED)
    assert [genome.as_dict() for genome in recording.space] == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    best, broken = recording.space.outcomes.values()
    assert (best.score_us, best.times_us, best.compile_s) == (2500.0, (2000.0, 3000.0), 0.4)
    assert (broken.status, broken.score_us) == (Status.RUNTIME, None)


def test_the_fixture_is_read_though_its_last_braces_are_missing(stencil):
    statuses = {outcome.status for outcome in stencil.space.outcomes.values()}

    assert gzip.decompress(FIXTURE.read_bytes()).endswith(b",")
    assert len(stencil.space.genomes) == 416
    assert statuses == {Status.CORRECT, Status.CONSTRAINTS, Status.COMPILE, Status.RUNTIME}
    assert min(stencil.scores_us) == stencil.scores_us[0] > 1000


def test_gzip_makes_no_difference_whatever_the_name(tmp_path, stencil):
    path = tmp_path / "cache.json"
    path.write_bytes(FIXTURE.read_bytes())

    assert cache_text(read_recording(path)) == cache_text(stencil)


@table_of_cases()
def test_each_of_kernel_tuners_failures_is_a_status(tmp_path, word, status, rung):
    as_time = written(tmp_path, lambda data: data["cache"]["1,x"].update(time=word), "old.json")
    as_error = written(
        tmp_path, lambda data: data["cache"]["1,x"].update(time=1e20, __error__=word), "new.json"
    )

    for path in (as_time, as_error):
        outcome = outcome_of(path, a=1, b="x")
        assert (outcome.status, outcome.rung, outcome.score_us) == (status, rung, None)


@pytest.mark.parametrize("time", [1e20, float("nan"), float("inf"), 0, -1.0, None])
def test_a_number_that_is_no_time_is_a_failure_and_not_the_fastest(tmp_path, time):
    outcome = outcome_of(written(tmp_path, lambda data: data["cache"]["1,x"].update(time=time)), a=1, b="x")

    assert (outcome.status, outcome.score_us) == (Status.RUNTIME, None)
    assert "recorded time" in outcome.reason


def test_fractions_become_words_and_whole_floats_numbers(tmp_path):
    def change(data):
        data["tune_params"]["a"] = [1.0, 0.25]
        data["cache"]["1,x"]["a"] = 1.0
        data["cache"]["2,y"]["a"] = 0.25

    space = read_recording(written(tmp_path, change)).space

    assert space.param("a").values == (1, "0.25")
    assert all(space.genome(genome.as_dict()) == genome for genome in space)


def test_true_and_one_are_two_values(tmp_path):
    def change(data):
        data["tune_params"]["a"] = [1, True]
        data["cache"]["2,y"]["a"] = True

    space = read_recording(written(tmp_path, change)).space

    assert [type(value) for value in space.param("a").values] == [int, bool]
    assert len({genome.id for genome in space}) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.pop("tune_params_keys"), "'tune_params_keys' is missing"),
        (lambda data: data.pop("device_name"), "'device_name' is missing"),
        (lambda data: data["tune_params"].pop("b"), "'b' is missing"),
        (lambda data: data["cache"]["1,x"].pop("a"), "cache entry '1,x' has no 'a'"),
        (lambda data: data["cache"]["1,x"].pop("time"), "cache entry '1,x' has no 'time'"),
        (lambda data: data["cache"]["1,x"].update(time="2.5"), "the word '2.5' and no number"),
        (lambda data: data["cache"]["1,x"].update(a=7), "a=7 is not in tune_params"),
        (lambda data: data["cache"]["1,x"].update(a=[7]), "is not a value that a param can have"),
        (lambda data: data["cache"]["2,y"].update(a=1, b="x"), "stands there twice"),
        (lambda data: data["cache"].clear(), "holds no configuration"),
        (lambda data: data.pop("cache"), "no Kernel Tuner record"),
        (lambda data: data.update(cache=["1,x"]), "no Kernel Tuner record"),
        (lambda data: data["cache"].update({"1,y": 3}), "no whole Kernel Tuner record"),
        (lambda data: data.update(objective_higher_is_better=True), "'time' is to be as high as can be"),
        (lambda data: data.update(time_unit="us"), "its times are in 'us'"),
    ],
)
def test_a_file_that_is_not_whole_is_answered_with_what_is_wrong(tmp_path, change, words):
    path = written(tmp_path, change)

    with pytest.raises(UsageError, match=words) as caught:
        read_recording(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no JSON object"),
        (b"hello", "no JSON object"),
        (b"[1, 2]", "no JSON object"),
        (b"\xff\xfe", "no JSON object"),
        (b"\xff\xff", "neither text nor whole gzip"),
        (b"\x1f\x8bno", "gzip file is cut or damaged"),
        (gzip.compress(b"{}" * 99, mtime=0)[:-9], "gzip file is cut or damaged"),
        (b'{"cache": {"1": ', "the file is cut: it ends in the middle of line 1"),
        (b'{"cache": {\n"1": {"time": 1.', "the file is cut: it ends in the middle of line 2"),
        (b'{"cache": {\n"1": {"ti', "the file is cut: it ends in the middle of line 2"),
        (b'{"cache": {"1" 2}}', "no whole JSON: Expecting ':' delimiter in line 1, column 16"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"cache": {"1,x": 1, "1,x": 2}}', "'1,x' stands there twice"),
    ],
)
def test_what_is_no_whole_json_is_refused_in_words(tmp_path, content, words):
    path = tmp_path / "cache.json"
    path.write_bytes(content)

    with pytest.raises(UsageError, match=words) as caught:
        read_recording(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_passed_over(tmp_path, coding):
    path = written(tmp_path, lambda data: None)
    path.write_bytes(path.read_text().encode(coding))

    assert len(read_recording(path).space.genomes) == 2


def test_a_cache_without_its_end_says_so(stencil):
    assert any("416 whole entries are read" in remark for remark in stencil.remarks)


def test_a_cache_that_ranks_by_another_number_says_so(tmp_path):
    recording = read_recording(written(tmp_path, lambda data: data.update(objective="GFLOP/s")))

    assert (len(recording.remarks), recording.scores_us) == (1, [2500.0])
    assert "'GFLOP/s', which is no time" in recording.remarks[0]


def test_an_error_that_stands_at_the_objective_is_a_failure(tmp_path):
    def change(data):
        data["objective"] = "GFLOP/s"
        data["cache"]["2,y"] = {"a": 2, "b": "y", "GFLOP/s": "CompilationFailedConfig"}

    assert outcome_of(written(tmp_path, change), a=2, b="y").status is Status.COMPILE


def test_launches_in_another_unit_than_their_time_are_no_launches(tmp_path):
    for times in ([2500.0, 2600.0], [None], None):
        path = written(tmp_path, lambda data, times=times: data["cache"]["1,x"].update(times=times))

        assert outcome_of(path, a=1, b="x").times_us == ()


@pytest.mark.parametrize("head", [{"objective_higher_is_better": True}, {"metadata": {"direction": "max"}}])
def test_t4_results_whose_time_is_to_be_high_are_refused(tmp_path, head):
    path = t4(tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | head))

    with pytest.raises(UsageError, match="as high as can be"):
        read_recording(path)


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        read_recording(tmp_path / "none.json")


def t4(tmp_path: Path, *changes) -> Path:
    """T4 results of two params: three statuses, one time in microseconds."""
    results = copy.deepcopy(data(__file__, "T4_RESULTS"))
    for change in changes:
        change(results)
    path = tmp_path / "gemm.T4.json"
    path.write_text(json.dumps({"schema_version": "1.0.0", "results": results}))
    return path


def test_t4_results_give_all_six_statuses_and_times_in_any_unit(tmp_path):
    recording = read_recording(t4(tmp_path))

    assert recording.problem == "gemm"
    assert recording.space.params == (Param("b", (16, 32, 64)), Param("mode", ("x", "y")))
    assert recording.scores_us == [700.0, 3000.0]
    first, second, third = recording.space.outcomes.values()
    assert (first.times_us, first.compile_s, second.compile_s) == ((2000.0, 4000.0), 0.1, 0.05)
    assert (third.status, third.score_us) == (Status.TIMEOUT, None)


def test_t4_results_whose_objective_is_no_time_are_refused(tmp_path):
    def change(results):
        for each in results:
            each.update(objectives=["power"], measurements=[{"name": "power", "value": 9, "unit": "W"}])

    with pytest.raises(UsageError, match="'power' is no time"):
        read_recording(t4(tmp_path, change))


def test_a_configuration_with_two_outcomes_is_refused_and_a_repeated_one_said(tmp_path):
    again = read_recording(t4(tmp_path, lambda results: results.append(results[0])))

    assert (len(again.space.genomes), "1 results repeat" in again.remarks[0]) == (3, True)
    with pytest.raises(UsageError, match="stands there twice, with different outcomes"):
        read_recording(t4(tmp_path, lambda results: results[1].update(configuration={"b": 64, "mode": "x"})))


def test_a_param_that_only_some_configurations_have_is_absent_in_the_others(tmp_path):
    def change(results):
        del results[0]["configuration"]["mode"]

    space = read_recording(t4(tmp_path, change)).space

    assert space.param("mode").values == ("absent", "y")
    assert all(space.genome(genome.as_dict()) == genome for genome in space)


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"correctness": 0}, Status.CORRECTNESS),
        ({"correctness": 0.5}, Status.CORRECTNESS),
        ({"invalidity": "Compile", "measurements": []}, Status.COMPILE),
        ({"measurements": [{"name": "time", "value": None, "unit": "ms"}]}, Status.RUNTIME),
        ({"measurements": [{"name": "time", "value": 1e20, "unit": "ms"}]}, Status.RUNTIME),
    ],
)
def test_a_result_that_failed_has_no_time(tmp_path, changed, status):
    outcome = outcome_of(t4(tmp_path, lambda results: results[0].update(changed)), b=64, mode="x")

    assert (outcome.status, outcome.score_us) == (status, None)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"invalidity": "wrong"}, "has the invalidity 'wrong': use one of correct, constraints"),
        ({"invalidity": None}, "has the invalidity 'none'"),
        ({"configuration": None}, "a result has no configuration"),
        ({"evoflash": {"gpu": "l4"}}, "its results differ in gpu"),
        ({"correctness": "incorrect"}, "has the correctness 'incorrect': use a number"),
    ],
)
def test_a_result_that_does_not_say_what_it_is_is_refused(tmp_path, changed, words):
    with pytest.raises(UsageError, match=words):
        read_recording(t4(tmp_path, lambda results: results[0].update(changed)))


# ---- writing


@pytest.mark.parametrize("name", ["cache.json", "cache.json.gz"])
def test_what_is_written_is_read_back_whole(tmp_path, tiles, name):
    path = tmp_path / name
    write_recording(path, tiles)
    back = read_recording(path)

    assert back.space.outcomes == tiles.space.outcomes
    assert back.space.genomes == tiles.space.genomes == tuple(TILES)
    assert [g.id for g in back.space] == [g.id for g in TILES]
    assert back.space.params == TILES.params
    assert (back.space.family, back.space.version) == ("tiles", 3)
    assert replace(back, space=tiles.space) == tiles


def test_kernel_tuners_own_files_survive_a_round_trip(tmp_path, stencil):
    path = tmp_path / "again.json"
    write_recording(path, stencil)
    again = read_recording(path)

    assert again.space.outcomes == stencil.space.outcomes
    assert replace(again, space=stencil.space) == stencil


def test_equal_recordings_are_equal_files(tmp_path, tiles):
    for name in ("a.json.gz", "b.json.gz"):
        write_recording(tmp_path / name, tiles)

    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_kernel_tuner_finds_every_param_in_every_entry(tiles):
    """What its read_cache and simulation mode use, without our key."""
    data = json.loads(cache_text(tiles))

    assert data["tune_params_keys"] == list(data["tune_params"]) == list(TILES.names)
    for key, entry in data["cache"].items():
        values = [entry[name] for name in data["tune_params_keys"]]
        assert key == ",".join(map(str, values))
        assert all(entry[name] in data["tune_params"][name] for name in TILES.names)
        is_failed = entry["evoflash"]["status"] != "correct"
        assert isinstance(entry["time"], str) is is_failed is ("__error__" in entry)
        assert all(
            entry[f"{part}_time"] >= 0 for part in ("compile", "verification", "benchmark", "strategy")
        )
    words = {entry["time"] for entry in data["cache"].values() if isinstance(entry["time"], str)}
    assert words == {"InvalidConfig", "CompilationFailedConfig", "RuntimeFailedConfig"}


def test_a_record_that_was_edited_is_not_taken_for_a_recorded_one(tmp_path, tiles):
    path = tmp_path / "cache.json"
    write_recording(path, tiles)
    text = path.read_text()
    assert '"score_us": 4.0' in text
    path.write_text(text.replace('"score_us": 4.0', '"score_us": 0.4'))

    with pytest.raises(UsageError, match="was changed since evoflash wrote it"):
        read_recording(path)


def test_what_was_not_proven_is_neither_correct_nor_the_optimum(tiles):
    screened = RecordedOutcome(Status.SCREENED, Rung.PREFLIGHT, "", 0.1)
    space = recorded_space(
        "tiles", TILES.params, {**tiles.space.outcomes, tiles.space.genomes[2]: screened}, version=3
    )
    with_one = replace(tiles, space=space)

    assert with_one.scores_us == tiles.scores_us
    assert with_one.summary.correct == len(tiles.scores_us)
    assert f"{with_one.screened_count} more looked right" in with_one.summary.title


def test_a_lower_bound_is_not_the_optimum(tiles):
    bounded = {
        g: RecordedOutcome(Status.CORRECT, Rung.TIMING, "", 0.1, is_lower_bound=True)
        for g in tiles.space.genomes[:1]
    }
    space = recorded_space("tiles", TILES.params, {**tiles.space.outcomes, **bounded})

    assert replace(tiles, space=space).scores_us[0] == pytest.approx(1 / 3)


# ---- the space


def test_a_param_is_active_where_it_was_recorded_so(tiles):
    for genome in TILES:
        values = genome.as_dict()
        for name in ("tau", "stages"):
            raw = {**values, name: TILES.param(name).values[0]}
            assert tiles.space.genome(raw) == TILES.genome(raw)


def test_only_what_was_recorded_is_valid(tiles):
    too_big = TILES.genome({"block": 64, "stages": 2})

    assert TILES.violations(too_big) == ("fits",)
    assert tiles.space.violations(too_big) == ("recorded",)
    assert not tiles.space.is_valid(too_big)
    assert all(tiles.space.violations(genome) == () for genome in TILES)


def test_neighbours_are_recorded_ones(stencil):
    genome = stencil.space.genomes[100]
    near = list(stencil.space.neighbours(genome))

    assert near
    assert all(stencil.space.is_valid(other) for other in near)
    assert all(len(set(other.values) - set(genome.values)) == 1 for other in near)


def test_a_few_points_of_a_huge_space_are_drawn_and_listed():
    params = tuple(Param(f"p{i}", tuple(range(50))) for i in range(8))
    outcomes = {
        Genome("sparse", 1, tuple((f"p{i}", n) for i in range(8))): RecordedOutcome(
            Status.CORRECT, Rung.DONE, "", n + 1.0
        )
        for n in range(40)
    }
    space = recorded_space("sparse", params, outcomes)
    strategy = make_strategy("uniform", space, seed=0)

    proposed = [strategy.ask().genome for _ in range(40)]
    assert set(proposed) == set(space.genomes)
    assert strategy.ask() is None


def test_sampling_gives_every_recorded_genome_the_same_chance(tiles):
    rng = np.random.default_rng(0)
    counts = {genome: 0 for genome in tiles.space}
    for _ in range(200 * len(counts)):
        counts[tiles.space.sample(rng)] += 1

    assert 130 < min(counts.values()) <= max(counts.values()) < 280


def test_an_empty_record_is_refused():
    with pytest.raises(UsageError, match="holds no configuration"):
        recorded_space("none", (Param("a", (1,)),), {})


# ---- the evaluator


def test_the_evaluator_gives_the_recorded_outcome_oldest_first(stencil):
    evaluator = ReplayedEvaluator(stencil, ahead=3)
    chosen = stencil.space.genomes[:3]
    for genome in chosen:
        evaluator.submit(Proposal(genome))
    assert evaluator.pending == 3

    for genome in chosen:
        proposal, evaluation = evaluator.collect()
        outcome = stencil.space.outcomes[genome]
        assert proposal.genome == evaluation.genome == genome
        assert (evaluation.status, evaluation.rung) == (outcome.status, outcome.rung)
        assert evaluation.score_us == outcome.score_us
        assert (evaluation.basis, evaluation.gpu) == (Basis.REPLAYED, "Made-up GPU")
    assert evaluator.pending == 0


def test_a_recorded_timing_has_the_spread_of_its_launches(stencil):
    evaluator = ReplayedEvaluator(stencil)
    genome, outcome = next(item for item in stencil.space.outcomes.items() if item[1].times_us)
    evaluator.submit(Proposal(genome))
    timing = evaluator.collect()[1].timings[0]

    assert timing.median_us == sorted(outcome.times_us)[1]
    assert timing.p10_us < timing.median_us < timing.p90_us
    assert (timing.protocol, timing.n) == ("recorded", 3)


def test_failures_and_lower_bounds_keep_what_they_are(tiles):
    evaluator = ReplayedEvaluator(tiles)
    for genome, outcome in tiles.space.outcomes.items():
        evaluator.submit(Proposal(genome))
        evaluation = evaluator.collect()[1]
        assert evaluation.is_correct is (outcome.status is Status.CORRECT)
        assert evaluation.is_censored is outcome.is_lower_bound
        assert evaluation.reason == outcome.reason
        assert bool(evaluation.timings) is evaluation.is_correct


def test_what_was_never_recorded_breaks_the_constraints(tiles):
    evaluator = ReplayedEvaluator(tiles)
    evaluator.submit(Proposal(TILES.genome({"block": 64, "stages": 2})))

    evaluation = evaluator.collect()[1]
    assert (evaluation.status, evaluation.reason) == (Status.CONSTRAINTS, "not in the recorded space")


def test_cancel_drops_what_is_pending(tiles):
    evaluator = ReplayedEvaluator(tiles)
    evaluator.cancel()
    evaluator.submit(Proposal(tiles.space.genomes[0]))
    evaluator.cancel()

    assert evaluator.pending == 0
