"""The recorded regret table of the serving mix: what is claimed of it follows from it."""

from pathlib import Path

from evoflash.app.mix import read_mix
from evoflash.app.portfolio.choice import choose, regrets
from evoflash.app.portfolio.table import read_table
from evoflash.evaluation import Basis
from scripts.portfolio.measure import MIX

TABLE = Path(__file__).parent / "records" / "serving-mix-h200-table.json"
MOST = 0.03  # of mean regret, with four kernels


def test_four_kernels_are_within_three_percent_of_the_best_on_the_recorded_h200():
    table, mix = read_table(TABLE), read_mix(MIX)
    regret = regrets(table.times_us([shape.workload for shape in mix]))

    weighted = choose(regret, [shape.weight for shape in mix], 4)
    alike = choose(regret, [1 / len(mix)] * len(mix), 4)

    assert (table.gpu, table.basis, len(mix)) == ("h200", Basis.MEASURED, 24)
    assert weighted.uncovered == alike.uncovered == 0.0
    assert 0 < weighted.mean <= MOST
    assert 0 < alike.mean <= MOST
    assert weighted.is_exact
