"""Every gene changes what runs: adjacent values give other code or launches; an inert gene is caught."""

import pytest

from evoflash.kernels.family import families_for
from evoflash.specs import load_gpu
from scripts.families.inert_genes import complaint, examine_genes, genes_of

GPU = load_gpu("h200")


# Their own tests compare the machine code of all neighbours, but for ctas_per_sm, in one genome.
COMPARED = ("flash_cluster", "flash_direct", "flash_mma", "flash_wgmma")


EVERY = genes_of([family.name for family in families_for(load_gpu("h200"))])
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
