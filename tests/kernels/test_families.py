"""Every family by its file of cases (tests/kernels/cases): genes, shapes, checks, texts, planted mistakes."""

from collections.abc import Iterator
from dataclasses import replace

import gene_cases
import numpy as np
import pytest
from gene_cases import FamilyCases, cases_of
from tables import data

from evoflash.emulator.preflight import preflight
from evoflash.evaluation import Status
from evoflash.kernels.nvrtc import compile_candidate
from evoflash.kernels.renderer import render
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload
from evoflash.specs import load_gpu

BY_GENE = [
    cases_of(name) for name in ("flash_cluster", "flash_direct", "flash_mma", "flash_wgmma", "decode_dense")
]
BY_CORE = [cases for cases in BY_GENE if "cores" in cases.said]
BY_TEXT = [cases for cases in BY_GENE if "texts" in cases.said]
ALL = [*BY_GENE, cases_of("flash_simt"), cases_of("flash_wmma")]
FAILED = {Status.RUNTIME, Status.CORRECTNESS, Status.TIMEOUT}


def of_each(families: list[FamilyCases], part: str) -> Iterator[object]:
    """(cases, a row) of every row that the families' files have there."""
    for cases in families:
        for at, row in enumerate(cases.said.get(part, ())):
            yield pytest.param(cases, row, id=f"{cases.family.name}-{at}")


def with_family(cases: FamilyCases, found: Iterator[pytest.param]) -> Iterator[object]:
    """Cases of one family as those of several."""
    for each in found:
        yield pytest.param(cases, *each.values, id=f"{cases.family.name}-{each.id}", marks=each.marks)


# ---- genes


@pytest.mark.full  # some twenty large kernels of each family
@pytest.mark.parametrize(
    ("cases", "gene"),
    [
        pytest.param(cases, gene, id=f"{cases.family.name}-{gene}")
        for cases in BY_GENE
        for gene in ("", *cases.said.get("key_of", ()))
    ],
)
def test_the_values_of_all_genes_run_clean_a_few_in_each_genome(cases, gene):
    """Those that share a key with the gene, or with most of the others."""
    key = cases.key_of(gene)
    alone = {
        (name, value): cases.with_value(name, value)
        for name, value in gene_cases.values_of(cases.family)
        if cases.key_of(name) == key
    }
    packs = gene_cases.packs(alone, cases.genome({}, key), cases.family.space((key,), cases.gpu))

    assert {names: said for genome, names in packs if (said := cases.complaint(genome, key))} == {}


@pytest.mark.parametrize(
    ("cases", "name", "value"),
    [
        pytest.param(cases, name, value, id=f"{cases.family.name}-{name}={value}")
        for cases in BY_GENE
        for name, value in gene_cases.values_of(cases.family)
    ],
)
@pytest.mark.full  # by default a few values share a genome
def test_each_value_of_each_gene_runs_clean(cases, name, value):
    genome = cases.with_value(name, value)
    assert genome.as_dict()[name] == value, "the gene is not active here"

    assert cases.complaint(genome, cases.key_of(name)) == ""


@pytest.mark.parametrize(
    ("cases", "name", "one", "other"),
    [one for each in BY_GENE for one in with_family(each, gene_cases.adjacent_values(each.family))],
)
@pytest.mark.sample(2)
def test_no_value_is_inert(cases, name, one, other):
    genomes = cases.with_value(name, one, other), cases.with_value(name, other, one)
    first, second = (
        gene_cases.machine(cases.family, genome, cases.key_of(name), cases.gpu) for genome in genomes
    )

    assert first != second


def has_room(values, key):
    """At a head_dim of 128 three rings of flash_wgmma do not fit into an SM, nor four warpgroups with 64 keys
    each, nor two tiles of Q into registers.
    """
    base = {"q_home": "smem", "rows_per_warpgroup": 64, **cases_of("flash_wgmma").said["base"]}
    both = {**base, **values}
    return key.head_dim == 64 or (
        both["ctas_per_sm"] < 3
        and (both["consumers"], both["block_n"]) != (4, 64)
        and (both["q_home"], both["rows_per_warpgroup"]) != ("registers", 128)
    )


def meetings(cases: FamilyCases) -> Iterator[object]:
    keys = {title: cases.key_with(key) for title, key in cases.said.get("keys", {"": {}}).items()}

    def fits(values, key):
        return has_room(values, key) and cases.has_all(values, key)

    return gene_cases.shared_out(cases.said["pairs"], keys, fits=fits, every=cases.said.get("meet_every", 1))


@pytest.mark.parametrize(
    ("cases", "values", "key"), [one for each in BY_GENE for one in with_family(each, meetings(each))]
)
@pytest.mark.sample(2)
def test_genes_that_meet_run_clean(cases, values, key):
    assert cases.complaint(cases.genome(values, key), key, seed=2) == ""


@pytest.mark.cover
@pytest.mark.parametrize("cases", BY_CORE, ids=lambda cases: cases.family.name)
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize(
    ("dtype", "causal", "gqa"), [("fp16", True, 1), ("bf16", True, 4), ("fp16", False, 4)]
)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.sample(2)
def test_random_genomes_pass_the_emulator(cases, head_dim, dtype, causal, gqa, seed):
    key = AttentionKey(head_dim, dtype, causal, gqa, "sm_90a")
    space = cases.family.space((key,), cases.gpu)
    genome = space.sample(np.random.default_rng([head_dim, causal, gqa, seed]))
    found = preflight(render(genome, key, cases.gpu), cases.family, cases.gpu, seed=seed)
    assert found.complaint == "", genome


@pytest.mark.full  # twelve kernels for the compiler
@pytest.mark.parametrize(
    ("name", "gpu"),
    [("flash_wgmma", "h200"), ("flash_cluster", "h200"), ("flash_direct", "l4"), ("flash_direct", "h200")],
)
def test_random_genomes_compile_without_spills(name, gpu):
    """The named checks are the walls of registers and shared memory: at least nine of ten must hold."""
    family, spec, rng, whole = cases_of(name).family, load_gpu(gpu), np.random.default_rng(7), 0
    keys = [AttentionKey(64, "fp16", True, 2, spec.arch), AttentionKey(128, "bf16", False, 1, spec.arch)]
    for key in [*keys, replace(keys[0], head_dim=128), replace(keys[1], head_dim=64)] * 3:
        build = compile_candidate(render(family.space((key,), spec).sample(rng), key, spec))
        whole += build.ok and not build.spill_bytes and not build.warnings
    assert whole >= 11


# ---- shapes

SHAPES = data(__file__, "SHAPES", tuples=True)


@pytest.mark.cover
@pytest.mark.parametrize(("seq_q", "seq_kv", "trial"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(
    ("cases", "values"),
    [
        pytest.param(cases, values, id=f"{cases.family.name}-{name}")
        for cases in BY_CORE
        for name, values in cases.said["cores"].items()
    ],
)
@pytest.mark.parametrize(
    "causal", [True, pytest.param(False, marks=pytest.mark.full)], ids=["causal", "full"]
)
@pytest.mark.sample(4)
def test_odd_shapes_come_out_right(cases, values, seq_q, seq_kv, causal, trial):
    """Output and LSE of every row, O = 0 and LSE = -inf for rows that see no key; two batches, six heads."""
    key = replace(cases.key, causal=causal, gqa_ratio=3, dtype="bf16")
    workload = AttentionWorkload(2, 6, 2, seq_q, seq_kv, 64, "bf16", causal=causal)

    cases.run_clean(cases.genome(values, key), key, workload, trial, seed=5, is_strided=True)


# ---- checks, texts and mistakes


@pytest.mark.parametrize(("cases", "row"), list(of_each(ALL, "refused")))
def test_a_named_check_refuses_what_cannot_work(cases, row):
    space = cases.family.space((cases.key_with(row.get("key", {})),), cases.gpu)
    found, checks = space.violations(space.genome(cases.values(row))), tuple(row.get("checks", ()))

    assert set(checks) <= set(found) if row.get("among_others") else checks == found


@pytest.mark.parametrize(("cases", "row"), list(of_each(BY_TEXT, "texts")))
def test_a_rendered_kernel_holds_its_genes_and_nothing_of_others(cases, row):
    text = render(cases.genome(row["values"]), cases.key, cases.gpu).source

    gene_cases.assert_holds(text, row.get("present", ()), row.get("absent", ()))
    assert [word for word in row.get("said", ()) if word not in text] == []


@pytest.mark.parametrize(
    ("cases", "values"),
    [
        pytest.param(cases, values, id=f"{cases.family.name}-{name}")
        for cases in BY_TEXT
        for name, values in {"base": {}, **cases.said["pairs"]}.items()
    ],
)
@pytest.mark.sample(20)
def test_a_rendered_kernel_reads_as_if_written_by_hand(cases, values):
    for causal in (True, False):
        key = replace(cases.key, causal=causal)
        gene_cases.assert_reads_as_if_written_by_hand(
            render(cases.genome(values, key), key, cases.gpu).source
        )


@pytest.mark.parametrize(
    ("cases", "kernel", "mistake"),
    [
        pytest.param(cases, kernel, mistake, id=f"{cases.family.name}-{mistake['name']}")
        for cases in ALL
        for kernel in cases.said.get("planted", ())
        for mistake in kernel["mistakes"]
    ],
)
@pytest.mark.sample(3)
def test_a_planted_mistake_is_found(cases, kernel, mistake):
    key = cases.key_with(kernel.get("key", {}))
    values, registers = cases.values(kernel), kernel.get("registers", 0)
    candidate = render(cases.genome(values, key), key, cases.gpu)
    faulty = gene_cases.patched(candidate, *mistake["patch"], places=mistake.get("places", 1))

    right = gene_cases.unpatched(candidate, cases.family, cases.gpu, seed=0, registers=registers)
    found = preflight(faulty, cases.family, cases.gpu, seed=0, registers=registers)

    assert right.complaint == ""
    wanted = {Status[mistake["status"]]} if "status" in mistake else FAILED
    assert found.status in wanted, found.complaint or "the mistake went unnoticed"
    assert mistake.get("says", "") in found.complaint
