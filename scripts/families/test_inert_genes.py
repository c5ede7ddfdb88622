"""Every gene changes what runs: adjacent values give other code or launches; an inert gene is caught."""

import pytest

from evoflash.kernels.family import known_families, read_family
from evoflash.space import Param
from evoflash.specs import load_gpu
from scripts.families.inert_genes import Pool, adjacent, complaint, examine, examine_genes, genes_of

GPU = load_gpu("h200")

TINY = """{#---
# A kernel with genes that matter and genes that do not.
version = 1
arch = ["sm_80+"]
entry = "tiny"
[params]
adds    = [1, 2, 3]
comment = ["a", "b"]
unused  = [1, 2]
folded  = [1, 2]
smem    = [0, 1024]
late    = [1, 2]
barred  = [1, 2]
[when]
late = "adds == 3"
[check]
never_two = "barred == 1"
[let]
block_m = "32"
block_n = "32"
k_stages = "1"
[launch]
grid = ["seq_q", "heads", "batch"]
block = [32, 1, 1]
smem = "smem"
---#}
{{ banner }}
#include "ef.h"
// {{ comment }}
constexpr int kUnused = {{ unused }};  /* {{ comment }} */
extern "C" __global__ void
{{ entry }}(const float* Q, float* O) {
  O[threadIdx.x] = Q[threadIdx.x] + float({{ adds }}) + float({{ folded }} - {{ folded }});
{% if adds == 3 %}
  O[threadIdx.x] *= float({{ late }});
{% endif %}
}
EF_EXPORT_KERNEL({{ entry }})
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    path = tmp_path / "tiny.cu.j2"
    path.write_text(TINY)
    monkeypatch.setenv("EVOFLASH_TEMPLATES", str(tmp_path))
    return read_family(path)


def finding_of(family, gene, values):
    return examine(family, GPU, Pool(family, GPU, seed=0), gene, values)


@pytest.mark.parametrize(
    ("gene", "values", "differs"),
    [
        ("adds", (1, 2), "code"),
        ("adds", (2, 3), "code"),
        ("smem", (0, 1024), "launch"),
        ("late", (1, 2), "code"),  # active in a third of the genomes
        ("comment", ("a", "b"), ""),  # in comments only
        ("unused", (1, 2), ""),  # a constant that nothing reads
        ("folded", (1, 2), ""),  # the compiler removes it
    ],
)
def test_a_gene_counts_as_real_when_machine_code_or_launches_differ(tiny, gene, values, differs):
    finding = finding_of(tiny, gene, values)

    assert finding.differs == differs
    assert finding.genomes == (1 if differs else 20)


def test_a_pair_that_no_genome_can_have_is_a_complaint_of_its_own(tiny):
    finding = finding_of(tiny, "barred", (1, 2))

    assert finding.genomes == 0
    assert complaint(finding) == "tiny.barred 1 / 2: no genome is valid under both"


def test_an_inert_gene_is_named_with_its_values(tiny):
    line = complaint(finding_of(tiny, "unused", (1, 2)))

    assert line == "tiny.unused 1 / 2: the same machine code and launches in 20 genomes"


def test_pairs_are_neighbours_in_the_headers_order():
    assert adjacent(Param("layout", ("pad8", "xor128", "xor64"))) == [("pad8", "xor128"), ("xor128", "xor64")]


# Their own tests compare the machine code of all neighbours, but for ctas_per_sm, in one genome.
COMPARED = ("flash_cluster", "flash_direct", "flash_mma", "flash_wgmma")


EVERY = genes_of(known_families())
OWN = [each for each in EVERY if each[0] not in COMPARED]
BOUNDS = [each for each in EVERY if each[0] in COMPARED and each[1] == "ctas_per_sm"]


@pytest.mark.full  # compiles two kernels for each gene
@pytest.mark.parametrize("genes", [OWN, BOUNDS], ids=["own", "bounds"])
def test_no_gene_of_a_shipped_family_is_inert(genes):
    """The last pair, where values are added, at head_dim 64; the script takes all of them. For
    ctas_per_sm many genomes are compiled until the registers that it bounds are too many.
    """
    findings = examine_genes(genes, gpu="h200", seed=0, workers=2, briefly=True)

    assert [line for finding in findings if (line := complaint(finding))] == []
    assert {(finding.family, finding.gene) for finding in findings} == set(genes)
    assert sum("code" in finding.differs for finding in findings) > len(findings) / 2
