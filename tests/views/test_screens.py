"""What stands on a terminal of 40 to 140 columns: whole figures, and the mark of every estimate."""

import io
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console
from screens import screens
from tables import data

from evoflash.app import catalogue, kernel_lookup
from evoflash.app.doctor import Diagnosis
from evoflash.app.kernel_lookup import known_genome
from evoflash.app.ladder import sources
from evoflash.champions import champion_today
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Build, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.kernels.family import known_families, load_family
from evoflash.kernels.header import gene_notes, header_of
from evoflash.kernels.standalone import export_kernel, genome_of
from evoflash.operations.attention.workload import NAMED, AttentionKey
from evoflash.operations.paged.workload import NAMED as PAGED
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from evoflash.strategies import check_strategy
from evoflash.views.catalogue import describe_families
from evoflash.views.doctor import describe_machine
from evoflash.views.progress import Piece, draw_bar, fit_line
from evoflash.views.tables import Column, print_table
from evoflash.views.terminal import wrap

MISSION = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"
WIDTHS = (40, 60, 80, 100, 140)
COMMANDS = data(__file__, "COMMANDS")
SOME = ("runs", "status", "watch", "best")  # at fewer widths: others show the same functions at all of them
SOME_WIDTHS = (60, 80)
SHOTS = [(name, width) for name in COMMANDS for width in (SOME_WIDTHS if name in SOME else WIDTHS)]


def fill(path: Path) -> None:
    """A run of four estimated kernels, begun at a known time; its newest is not older than now."""
    key = AttentionKey(64, "fp16", False, 1, "sm_89")
    with open_store(str(path)) as store:
        run = store.begin(
            RunKey(MISSION, "l4", Basis.ESTIMATED, "evolution", 1),
            gpu_hash="abc",
            budget=9,
            argv=[],
            environment={},
        )
        for warps, us in ((1, 9876.54), (2, 14.201), (4, 12.684), (8, 1.5)):
            genome = Genome("flash_mma", 2, (("warps", warps),))
            evaluation = Evaluation(
                genome,
                MISSION,
                "l4",
                Basis.ESTIMATED,
                Status.CORRECT,
                Rung.DONE,
                builds=(Build(genome.id, key, "source", "cubin", "", registers=128, spill_bytes=4),),
                timings=(Timing(MISSION, "model", us, us, us, 1),),
                score_us=us,
                bound="latency",
                model_version="3",
            )
            store.add(run, evaluation, Proposal(genome, operator="seed" if warps == 1 else "more_warps"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE runs SET created = '2026-01-02T03:04:05+00:00'")
        connection.execute("UPDATE evaluations SET created = '2999-01-01T00:00:00+00:00'")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, int], str]]:
    """A command at a width, each taken once."""
    database = tmp_path_factory.mktemp("screens") / "evoflash.db"
    fill(database)
    with screens(EVOFLASH_DB=str(database), CUDA_VISIBLE_DEVICES="") as take:
        yield cache(lambda name, width: take(width, COMMANDS.get(name, [name])))


@pytest.mark.parametrize(("name", "width"), SHOTS)
@pytest.mark.sample(20)
def test_a_command_looks_as_it_did(shown, golden, name, width):
    golden(f"screens/{name}-{width}.txt", shown(name, width))


DOCTOR = [Diagnosis(*row) for row in data(__file__, "DOCTOR")]


@pytest.mark.parametrize("width", [80, 120])
def test_doctor_without_a_gpu_looks_as_it_did(golden, width):
    golden(f"screens/doctor-{width}.txt", wrap(describe_machine(DOCTOR), width) + "\n")


@pytest.mark.parametrize("width", WIDTHS)
def test_rank_and_time_of_every_kernel_are_whole_and_marked_at_any_width(shown, width):
    screen = shown("leaderboard", width)
    for rank, time in (("1", "~1.500"), ("2", "~12.68"), ("3", "~14.20"), ("4", "~9877")):
        assert re.search(rf"^{rank} .*\s{re.escape(time)}(\s|$)", screen, re.MULTILINE), screen
    assert "…" not in screen


@pytest.mark.parametrize("width", WIDTHS)
def test_a_search_shows_how_far_it_is_and_the_marked_best_at_any_width(shown, width):
    line = shown("progress", width).splitlines()[-1]
    assert "120/200" in line
    assert "best ~53.18 us" in line


@pytest.mark.parametrize("width", SOME_WIDTHS)
def test_a_run_keeps_its_marked_time_and_its_state_at_any_width(shown, width):
    assert re.search(r"^ +1 .*4/9 +~1\.50 +stopped", shown("runs", width), re.MULTILINE)
    for command in ("status", "watch"):
        assert "best ~1.50 us ESTIMATED" in shown(command, width)


@pytest.mark.parametrize("width", SOME_WIDTHS)
@pytest.mark.parametrize("command", ["show", "best"])
def test_a_line_of_a_kernel_goes_on_beside_its_label(shown, command, width):
    lines = shown(command, width).splitlines()
    kernel = lines[lines.index(next(line for line in lines if line.startswith("kernel"))) :]
    said = kernel[: next(at for at, line in enumerate(kernel) if line.startswith("again"))]
    labels = {"kernel", "values", "problem", "status", "time", "model", "build", "checked", "note"}
    assert {line[:10].strip() for line in said} == labels | {""}


def test_a_line_without_a_label_goes_on_a_little_further_in():
    assert wrap("  one two three", 9) == "  one two\n    three"


def test_the_last_label_in_the_left_half_is_where_a_line_goes_on():
    line = "absent   torch baselines  kernels are timed alone   pip install torch"
    assert wrap(line, 60).splitlines() == [line[:55].rstrip(), " " * 26 + "install torch"]
    assert wrap(line, 40).splitlines()[1].startswith(" " * 9 + "timed")


def test_a_command_stays_in_one_line_and_a_line_that_fits_stays_as_it_is():
    text = "again     evoflash export 81d5ac662c88cd6a\nproblem   a   on l4"
    assert wrap(text, 20) == text


@pytest.mark.parametrize("width", range(20, 200, 9))
def test_wrapping_loses_no_character_and_no_line_is_too_long(width):
    text = "build     d=64,dtype=fp16,full,gqa=1,sm_89: 128 registers, 4 bytes spilled; a remark of ptxas" * 2
    assert "".join(wrap(text, width).split()) == "".join(text.split())
    assert all(len(line) <= width for line in wrap(text, width).splitlines())


@pytest.mark.parametrize("width", [80, 100, 140])
def test_from_80_columns_a_search_shows_bar_counts_times_rate_and_time_left(shown, width):
    line = shown("progress", width).splitlines()[-1]
    assert re.search(r"━+─+  120/200  best ~53.18 us  seed ~112.68  \d:\d\d left  at [\d.]+/s", line), line


def test_pieces_of_the_line_are_left_out_whole_and_the_least_important_first():
    pieces = (Piece("9/99", 0), Piece("best ~1.23 us", 1), Piece("seed ~4.56", 3), Piece("0:07 left", 2))
    assert fit_line(pieces, 42) == "9/99  best ~1.23 us  seed ~4.56  0:07 left"
    assert fit_line(pieces, 41) == "9/99  best ~1.23 us  0:07 left"
    assert fit_line(pieces, 29) == "9/99  best ~1.23 us"
    assert fit_line(pieces, 3) == "9/99"


@pytest.mark.parametrize(("share", "lengths"), [(0.0, (0, 20)), (0.5, (10, 10)), (2.0, (20, 0))])
def test_the_bar_has_the_length_that_is_left_and_parts_that_differ_without_colour(share, lengths):
    done, rest = draw_bar(share, 20)
    assert (len(done), len(rest)) == lengths
    assert not set(done) & set(rest)


def test_a_bar_that_would_be_too_short_or_has_no_end_is_not_drawn():
    assert draw_bar(0.5, 5) == draw_bar(None, 50) == ("", "")


@pytest.mark.parametrize("width", range(20, 200, 7))
def test_a_table_never_cuts_a_cell_and_names_what_it_leaves_out(width):
    columns = [Column(f"column {at}", (f"cell-{at}" * 2, "x"), rank=at) for at in range(8)]
    out = io.StringIO()
    print_table(columns, Console(file=out, width=width, force_terminal=True, color_system=None))
    text = out.getvalue()
    table, _, rest = " ".join(text.split()).partition(" leave no room for ")
    assert all(f"cell-{at}cell-{at}" in table or f"column {at}" in rest for at in range(8))
    assert "…" not in text
    assert all(len(line) <= width for line in text.splitlines())


def test_a_pipe_gets_every_column_however_many_there_are():
    columns = [Column(f"column {at}", ("a long cell of it",), rank=at) for at in range(20)]
    out = io.StringIO()
    print_table(columns, Console(file=out, width=80))
    assert len(out.getvalue().splitlines()) == 3
    assert "column 19" in out.getvalue()


def test_every_commands_summary_stands_whole_in_the_help_at_80_columns(shown):
    summaries = shown("help", 80).partition("Commands:")[2]
    assert "..." not in summaries
    assert summaries.count("\n") >= 18


def test_every_named_problem_is_listed_and_says_what_it_is():
    assert set(catalogue.NAMED_PROBLEMS) == {*NAMED, *PAGED}
    assert all(catalogue.NAMED_PROBLEMS.values())


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (lambda: parse_problem("misson"), "mission"),
        (lambda: load_gpu("h20"), "h200"),
        (lambda: load_family("flash_mm"), "flash_mma"),
        (lambda: check_strategy("evolutoin"), "evolution"),
        (lambda: genome_of("flash_mma", ["wraps=4"], problem="mission", gpu="l4"), "warps"),
    ],
    ids=["problem", "gpu", "family", "strategy", "gene"],
)
def test_a_mistyped_name_is_answered_with_the_nearest_one(wrong, right):
    with pytest.raises(UsageError, match=rf"Did you mean {right}\?"):
        wrong()


def test_an_id_of_the_archive_is_exported_and_so_is_its_prefix(tmp_path):
    known = champion_today(parse_problem("mission"), load_gpu("h200"))
    whole = export_kernel(known.genome, parse_problem("mission"), load_gpu("h200"))
    for prefix in (known.genome.id, known.genome.id[:12]):
        found = known_genome(prefix, str(tmp_path / "none.db"), problem="mission", gpu="h200")
        assert export_kernel(*found) == whole


def test_a_kernel_of_another_mask_gets_the_genes_that_only_this_one_has(tmp_path, monkeypatch):
    heard: list[str] = []
    monkeypatch.setattr(kernel_lookup, "say", heard.append)
    family, l4, db = load_family("flash_mma"), load_gpu("l4"), str(tmp_path / "one.db")
    what = parse_problem("mission")
    seed = family.seeds_for(what, family.space(what.compile_keys(l4.arch), l4), l4)[0]
    with open_store(db) as store:
        key = RunKey(MISSION, "l4", Basis.ESTIMATED, "evolution", 1)
        run = store.begin(key, gpu_hash="", budget=1, argv=[], environment={})
        made = Evaluation(seed, MISSION, "l4", Basis.ESTIMATED, Status.CORRECT, Rung.DONE, score_us=9.0)
        store.add(run, made, Proposal(seed))

    found, problem, gpu = known_genome(seed.id, db, problem="mission,causal", gpu="l4")

    assert found in family.space(problem.compile_keys(gpu.arch), gpu)
    assert set(found.values) - set(seed.values) == {("tile_skip", "off")}
    assert heard == [f"{seed.id} is {found.id} for '{problem}' on l4: with tile_skip=off."]


def test_an_id_that_nobody_knows_or_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="neither in"):
        known_genome("0" * 16, str(tmp_path / "none.db"), problem=None, gpu=None)
    with pytest.raises(UsageError, match="no genome id"):
        known_genome("kernel", str(tmp_path / "none.db"), problem=None, gpu=None)


@pytest.mark.parametrize("name", known_families())
def test_every_gene_and_every_check_of_a_family_is_explained(name):
    family = load_family(name)
    lines = [
        line.strip() for line in describe_families(catalogue.families(name), 100, explain=True).splitlines()
    ]
    for param in family.params:
        assert any(line.startswith(f"{param.name}: ") for line in lines), param.name
    for check in family.check:
        assert any(line.startswith(check.replace("_", " ") + ":") for line in lines), check
    notes = gene_notes(header_of(family.path))
    assert [param.name for param in family.params if not notes.get(param.name)] == []
    assert all(note.split()[0] in " ".join(lines) for note in notes.values())


def test_a_step_of_the_ladder_shows_its_change_to_the_step_before():
    shown = sources(gpu="l4", problem="mission")
    assert not shown[0].diff
    followers = [one for last, one in pairwise(shown) if last.step.family == one.step.family]
    assert followers
    assert all(any(line.startswith("+") for line in one.diff) for one in followers)
