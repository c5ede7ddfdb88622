"""docs/genes.md and what it is made of: the rows asked for, valid settings, figures that belong to them."""

import copy

import pytest

from evoflash.errors import UsageError
from evoflash.kernels.family import known_families, load_family, read_family
from evoflash.specs import load_gpu
from scripts.families.gene_rows import ASKED, param_of, read_rows
from scripts.pages.genes import genes_of, newest, page, techniques

GPU = load_gpu("h200")

TABLE = """
[[row]]
number = 2
technique = "Rings"
genes = ["flash_mma.k_stages"]
problem = "mission"
family = "flash_mma"
base = {warps = 4, rows_per_warp = 16, block_n = 32, waits = "joint", layout = "xor128"}
a = {k_stages = 1}
b = {k_stages = 2}

[[row]]
number = 1
technique = "Magic"
none = "nobody knows it"
"""


@pytest.fixture
def table(tmp_path):
    def write(text=TABLE):
        path = tmp_path / "genes.toml"
        path.write_text(text)
        return read_rows(path)

    return write


def record_of(rows):
    """A measurement file, of the row's two settings."""
    (row,) = (row for row in rows if row.sides)
    genomes = [side.genome(GPU) for side in row.sides]
    sides = [
        {"genome_id": genome.id, "family": genome.family, "version": genome.version, "median_us": us}
        | {"problem": str(side.workload), "values": genome.as_dict()}
        for side, genome, us in zip(row.sides, genomes, (8.0, 6.0), strict=True)
    ]
    ratio = {"b_over_a": 0.75, "low": 0.74, "high": 0.76, "answer": "faster"}
    return {
        "command": "python -m scripts.pages.genes --measure",
        "date": "2026-11-21",
        "gpu": "NVIDIA H200",
        "driver_cuda": "13.0",
        "protocol": "in turns",
        "rows": [{"number": row.number, "a": sides[0], "b": sides[1], **ratio}],
    }


def test_exactly_the_rows_that_were_asked_for_are_listed():
    assert tuple(row.number for row in read_rows()) == ASKED


@pytest.mark.parametrize("number", ASKED)
def test_a_row_has_two_valid_settings_or_says_why_it_is_not_a_gene(number):
    (row,) = (row for row in read_rows() if row.number == number)
    if row.sides is None:
        assert len(row.why_none) > 20
        return
    a, b = row.sides
    assert row.genes
    assert (a.genome(GPU), a.workload) != (b.genome(GPU), b.workload)
    if (a.family, a.problem) != (b.family, b.problem):
        assert {a.family, b.family} & set(row.genes)  # a whole family, or a property of the problem
        return
    differing = {name for name, value in a.shown if dict(b.shown).get(name) != value}
    assert differing & {param.name for gene in row.genes if (param := param_of(gene))}


def test_rows_come_in_the_order_of_their_numbers(table):
    assert [row.number for row in table()] == [1, 2]


@pytest.mark.parametrize(
    ("old", "new", "mentions"),
    [
        ('"flash_mma.k_stages"', '"flash_mma.k_stage"', "row 2.*k_stage"),
        ('["flash_mma.k_stages"]', "[]", "row 2.*no gene"),
        ("a = {k_stages = 1}\nb = {k_stages = 2}\n", "a = {k_stages = 1}\n", "row 2.*'b'"),
        ('family = "flash_mma"', 'family = "flash_nope"', "flash_nope"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(table, old, new, mentions):
    assert old in TABLE

    with pytest.raises(UsageError, match=mentions):
        [side.genome(GPU) for row in table(TABLE.replace(old, new)) for side in row.sides or ()]


@pytest.mark.parametrize(
    ("values", "mentions"),
    [
        ("k_stages = 9", "k_stages=9"),  # not in the domain
        ("k_stages = 2, lazy_tau = 4", "sets lazy_tau, which is inactive"),
        ("k_stages = 2, layout = 'xor64', warps = 16, rows_per_warp = 64, block_n = 128", "fails"),
    ],
)
def test_settings_that_are_not_valid_are_refused(table, values, mentions):
    row = table(TABLE.replace("b = {k_stages = 2}", f"b = {{{values}}}"))[1]

    with pytest.raises(UsageError, match=mentions):
        row.sides[1].genome(GPU)


def test_the_table_shows_the_measured_ratio_with_its_interval_gpu_and_file(table):
    rows = table()
    text = techniques(rows, ("genes-h200.json", record_of(rows)), GPU)

    assert "0.750 [0.740, 0.760], faster (8.00 us, 6.00 us)" in text
    assert "`flash_mma.k_stages` 1, 2, 3, 4" in text
    assert "k_stages=1, then k_stages=2; flash_mma, `mission`" in text
    assert "NVIDIA H200" in text
    assert "[genes-h200.json](../scripts/families/records/genes-h200.json)" in text
    assert "not a gene: nobody knows it" in text


def test_figures_of_another_genome_or_workload_are_not_shown(table):
    rows = table()
    record = record_of(rows)
    other_genome, other_problem = copy.deepcopy(record), copy.deepcopy(record)
    other_genome["rows"][0]["b"]["genome_id"] = "0" * 16
    other_problem["rows"][0]["a"]["problem"] = "b=9"

    for stale in (other_genome, other_problem):
        text = techniques(rows, ("genes-h200.json", stale), GPU)
        assert "0.750" not in text
        assert "not measured" in text


def test_the_newest_measurement_counts(tmp_path):
    for name, day in (
        ("genes-a.json", "2026-11-22"),
        ("genes-b.json", "2026-11-21"),
        ("other.json", "2030-01-01"),
    ):
        (tmp_path / name).write_text(f'{{"date": "{day}"}}')

    assert newest(tmp_path) == ("genes-a.json", {"date": "2026-11-22"})
    assert newest(tmp_path / "nowhere") is None


def test_every_gene_of_every_family_is_on_the_page():
    text = page(read_rows(), None, GPU)

    for name in known_families():
        section = text.partition(f"### {name}\n")[2].partition("###")[0]
        for param in load_family(name).params:
            assert f"| `{param.name}`" in section


def test_a_gene_is_listed_with_condition_block_star_and_comment(tmp_path):
    path = tmp_path / "tiny.cu.j2"
    path.write_text(
        '{#---\n# Tiny.\nversion = 3\narch = ["sm_80+"]\nentry = "tiny"\n[params]\n'
        'mode = ["a", "b"]   # this | or that\ndepth = [1, 2]\n[when]\ndepth = "mode == \'b\'"\n'
        '[structural]\nnames = ["mode"]\n[blocks]\nshape = ["mode", "depth"]\n'
        "[model]\nrows = 1\nkeys = 1\nstages = 1\n"
        "[launch]\ngrid = [1, 1, 1]\nblock = [32, 1, 1]\n---#}\n// body\n"
    )
    text = genes_of(read_family(path))

    assert "Tiny. Version 3, sm_80+." in text
    assert "| `mode` * | a, b | always | shape | this &#124; or that |" in text
    assert "| `depth` | 1, 2 | `mode == 'b'` | shape |  |" in text
