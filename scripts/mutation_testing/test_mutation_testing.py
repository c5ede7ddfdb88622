"""Mutation testing: what is mutated, in which kernels, and that a sample of mutants is found out."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from evoflash.errors import UsageError
from evoflash.kernels.family import families_for, load_family
from evoflash.specs import load_gpu
from scripts.mutation_testing.equivalents import equivalents
from scripts.mutation_testing.examine import examine
from scripts.mutation_testing.grid import Core, Task, _drawn, _features, grid, tasks
from scripts.mutation_testing.mutants import Mutant, mutants
from scripts.mutation_testing.run import review, summary
from scripts.records import read_record

GPU = load_gpu("h200")
FOLDER = Path(__file__).parent / "records"
DRAWS = 60
RECORDS = (
    "mutation-testing-2026-11-25.json",
    "mutation-testing-flash_mma.json",
    "mutation-testing-flash_wgmma-2026-11-24.json",
)
FEWER_ARRIVALS = "one arrival fewer: ef::mbar_init(k_empty + 8 * i, kArrivals)"
SAMPLE = 6  # mutants of synchronisation and of predicates that the tests emulate for each family


def changes(text: str) -> dict[str, list[str]]:
    """What becomes of a text: change -> texts."""
    found: dict[str, list[str]] = {}
    for mutant in mutants(text):
        found.setdefault(mutant.change, []).append(mutant.apply(text))
    return found


def recorded() -> dict[str, dict[str, Any]]:
    """What the kept records say of each family."""
    read = [read_record(FOLDER / name) for name in RECORDS]
    return {name: row for record in read for name, row in record["families"].items()}


def recorded_cores(family: str) -> list[Core]:
    """The grid of a family's record."""
    rows = recorded()[family]["grid"]
    return [Core.read(family, row["problem"], row["values"], GPU.name) for row in rows]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "  ef::syncthreads();  // here",
            {"deleted": "  (void)0;  // here", "warp only": "  ef::syncwarp();  // here"},
        ),
        ("  ef::syncwarp();", {"deleted": "  (void)0;"}),
        ("  ef::fence_proxy_async();", {"deleted": "  (void)0;"}),
        ("  ef::cp_async_commit();", {"deleted": "  (void)0;"}),
        ("  if (go) ef::wgmma_fence();", {"deleted": "  if (go) (void)0;"}),
        (
            "  ef::wgmma_wait<kStages - 1>();",
            {"deleted": "  (void)0;", "one group more pending": "  ef::wgmma_wait<kStages - 1 + 1>();"},
        ),
        (
            "  ef::bar_sync(kFull + f(a, b), kThreads);",
            {
                "deleted": "  (void)0;",
                "fewer threads": "  ef::bar_sync(kFull + f(a, b), kThreads - 32);",
                "no wait": "  ef::bar_arrive(kFull + f(a, b), kThreads);",
            },
        ),
        (
            "  ef::mbar_wait(full, j / kStages & 1);",
            {"deleted": "  (void)0;", "other parity": "  ef::mbar_wait(full, ((j / kStages & 1) ^ 1));"},
        ),
        (
            "  ef::mbar_arrive_expect_tx(full, kBytes);",
            {"deleted": "  (void)0;", "half the bytes": "  ef::mbar_arrive_expect_tx(full, (kBytes) / 2);"},
        ),
        ("  while (!ef::mbar_try_wait(full, phase)) {", {"deleted": "  while (!true) {"}),
        (
            "  if (!ef::syncthreads_or(a || b)) return;",
            {
                "deleted": "  if (!(a || b)) return;",
                "warp only": "  if (!ef::any_sync(a || b)) return;",
            },
        ),
    ],
)
def test_a_synchronisation_is_left_out_or_weakened(line, expected):
    found = changes(f"{line}\n")

    assert {change: found[change] for change in expected} == {c: [f"{t}\n"] for c, t in expected.items()}


@pytest.mark.parametrize(
    ("line", "before", "looser", "tighter"),
    [
        (
            "  const bool inside = first + row < rows;",
            "first + row < rows",
            "first + row <= rows",
            "first + row < rows - 1",
        ),
        (
            "  n = (row + 16 < seq_q ? row + 16 : seq_q) - 2;",
            "row + 16 < seq_q",
            "row + 16 <= seq_q",
            "row + 16 < seq_q - 1",
        ),
        ("  if (LSE && lane % 4 == 2 && row < seq_q) {", "row < seq_q", "row <= seq_q", "row < seq_q - 1"),
        (
            "  if (a || f(x, y) >= limit[r]) s = 0;",
            "f(x, y) >= limit[r]",
            "f(x, y) > limit[r]",
            "f(x, y) >= limit[r] - 1",
        ),
        ("  return row > last;", "row > last", "row >= last", "row > last + 1"),
        ("  seen |= key <= limit;", "key <= limit", "key < limit", "key <= limit + 1"),
        (
            "  f(a, ef::lds<int>(at) < rows, b);",
            "ef::lds<int>(at) < rows",
            "ef::lds<int>(at) <= rows",
            "ef::lds<int>(at) < rows - 1",
        ),
    ],
)
def test_a_predicate_becomes_true_false_and_off_by_one_either_way(line, before, looser, tighter):
    made = {mutant.after for mutant in mutants(f"{line}\n") if mutant.before == before}

    assert made == {"true", "false", looser, tighter}


@pytest.mark.parametrize(
    "line",
    [
        "// ef::syncthreads() here if row < rows",
        "#pragma unroll 4 < 5",
        "template <int ROWS> void f();",
        "constexpr int kRows = (kThreads + 1 - 1) / 4;",
        "for (int n = 0; n < BLOCK_N / 8; ++n)",
        "ef::cp_async16(target, source);",
        "o[2 * h + 1] = x << 4;",
    ],
)
def test_comments_constants_and_plain_work_stay(line):
    assert mutants(f"{line}\n") == []


def test_loops_that_threads_share_or_that_the_workload_ends_are_bounds():
    shared = changes("for (int i = threadIdx.x; i < ROWS * 8; i += 32) {\n")
    ended = changes("for (int j = 0; j < tiles; ++j) {\n")

    assert shared["< to <="] == ["for (int i = threadIdx.x; i <= ROWS * 8; i += 32) {\n"]
    assert ended["bound - 1"] == ["for (int j = 0; j < tiles - 1; ++j) {\n"]


def test_a_mutant_knows_its_place():
    found = mutants("first();\n\n  ef::syncwarp();  // b\n\n  last();\n")[0]

    assert (found.line, found.site, found.context, found.follows) == (
        3,
        "ef::syncwarp();  // b",
        "first();",
        "last();",
    )


@pytest.mark.full  # draws some hundred genomes of each family, twice
@pytest.mark.parametrize("name", [family.name for family in families_for(load_gpu("h200"))])
def test_the_grid_has_every_pair_of_structural_values_that_was_drawn(name):
    family = load_family(name)
    drawn = [core for core, _ in _drawn(family, GPU, seed=0, draws=DRAWS)]

    pairs = {pair for core in drawn for pair in combinations(_features(family, core), 2)}
    chosen = grid(family, GPU, seed=0, draws=DRAWS)

    assert pairs == {pair for core in chosen for pair in combinations(_features(family, core), 2)}
    assert len(chosen) < len(drawn)


def test_every_kernel_comes_first_as_it_is_and_a_predicate_in_one_kernel_only():
    cores = grid(load_family("flash_simt"), GPU, seed=0, draws=DRAWS)

    work = tasks(cores, cores_each=1, groups=("predicate",))

    assert [task.core for task in work if task.mutant is None] == cores
    seen = [
        (t.core.key.causal, t.mutant.site, t.mutant.context, t.mutant.before, t.mutant.change)
        for t in work
        if t.mutant
    ]
    assert len(seen) > 50


@pytest.mark.slow
@pytest.mark.full  # the test below examines a mutant in the default run
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", [family.name for family in families_for(load_gpu("h200"))])
def test_a_sample_of_mutants_is_found_out_or_reviewed(name, half):
    """Each second mutant of the sample."""
    family = load_family(name)
    core = grid(family, GPU, seed=0, draws=DRAWS)[0]
    work = [t for t in tasks([core], cores_each=1, groups=("sync", "predicate")) if t.mutant]
    sample = work[:: max(1, len(work) // SAMPLE)][half::2]
    outcomes = [examine(task) for task in [Task(core, None), *sample]]

    found = review(summary(outcomes), family, GPU, equivalents())

    assert found["unexplained"] == 0, found["survivors"]
    assert found["broken_cores"] == []
    assert found["mutants"] >= SAMPLE // 2
    assert any(outcome.ending == "reported" for outcome in outcomes)


@pytest.mark.slow
def test_a_barrier_of_a_cluster_that_counts_an_arrival_too_few_is_reported():
    core = next(core for core in recorded_cores("flash_wgmma") if core.genome.as_dict().get("cluster") == 4)
    fewer = [m for m in mutants(core.render().source) if m.what == FEWER_ARRIVALS]

    assert [examine(Task(core, mutant)).ending for mutant in fewer] == ["reported"]


def test_the_reviewed_list_reads_and_gives_reasons():
    reviewed = equivalents()

    assert all(len(each.reason) > 5 for each in reviewed)
    assert {name for each in reviewed for name in each.families} <= {
        family.name for family in families_for(load_gpu("h200"))
    }


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('families = ["flash_mma"]\nsite = "x"', "needs families and a reason"),
        ('families = ["flash_mma"]\nsite = "x"\nreason = "because"\nwhere = "here"', "has no key 'where'"),
    ],
)
def test_an_entry_without_a_reason_or_with_a_stray_key_is_refused(tmp_path, entry, says):
    path = tmp_path / "list.toml"
    path.write_text(f"[[equivalent]]\n{entry}\n")

    with pytest.raises(UsageError, match=says):
        equivalents(path)


def test_the_record_explains_every_survivor_and_every_reviewed_reason_stands_for_some_mutant():
    rows = recorded()
    reviewed = equivalents()
    now = {name: review(row, load_family(name), GPU, reviewed) for name, row in rows.items()}

    assert all(row["unexplained"] == 0 for row in now.values())
    assert all(row["broken_cores"] == [] for row in now.values())
    ours = {each.reason for each in reviewed if set(each.families) & set(rows)}
    assert ours == {reason for row in now.values() for reason in row["equivalents"]}
    assert {name: row["version"] for name, row in rows.items()} == {n: load_family(n).version for n in rows}


def test_a_core_is_read_back_as_it_was():
    core = grid(load_family("flash_mma"), GPU, seed=0, draws=DRAWS)[0]

    assert Core.read("flash_mma", core.problem, core.genome.as_dict(), GPU.name) == core


def test_an_equivalent_holds_only_where_it_was_reviewed():
    core = grid(load_family("flash_mma"), GPU, seed=0, draws=DRAWS)[0]
    place = "ef::syncthreads();  // tile j is here for every thread"
    needed = Mutant(0, "ef::syncthreads()", "(void)0", "sync", "deleted", 1, place, "", "")

    assert not any(each.covers(needed, core.family, core.names()) for each in equivalents())
