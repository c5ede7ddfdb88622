"""A portfolio as what evoflash/exports/portfolio/ writes: which kernel is needed for which compile key.

Compiles and writes nothing.
"""

from typing import Any

from evoflash.commands.portfolio import report, rule
from evoflash.commands.portfolio.run import Portfolio
from evoflash.errors import UsageError
from evoflash.evaluation import Basis, Evaluation, Rung, Status, Timing
from evoflash.exports.exported import Exported
from evoflash.exports.portfolio.package import Member, Package, by_members
from evoflash.operation import Workload
from evoflash.problem import Problem


def package_of(found: Portfolio) -> Package:
    """UsageError where no shape gets a kernel."""
    told, numbered = by_members(found.rule)
    if not numbered:
        raise UsageError("no shape gets a kernel: there is nothing to export.")
    members = [_member(found, number, key) for number, key in numbered]
    return Package(members, told, report.summary(found), len(found.mix))


def _member(found: Portfolio, number: int, key: tuple[Any, ...]) -> Member:
    shapes = [
        workload
        for workload, given in found.points.items()
        if given == number and rule.key_of(workload, found.spec.arch) == key
    ]
    genome = found.table.kernel(found.kernels[number])
    known = _evaluation(found, found.kernels[number], shapes)
    return Member(Exported(genome, Problem((shapes[0],)), found.spec, known))


def _evaluation(found: Portfolio, genome_id: str, shapes: list[Workload]) -> Evaluation | None:
    """What the table says of the kernel on these shapes; None where it is estimates."""
    if found.table.basis is not Basis.MEASURED:
        return None
    rows = (found.table.row(shape) or found.table.border(shape, found.kernels) for shape in shapes)
    timed = [(str(row.workload), row.times[genome_id]) for row in rows if row and genome_id in row.times]
    return Evaluation(
        genome=found.table.kernel(genome_id),
        problem=str(Problem(tuple(shapes))),
        gpu=found.spec.name,
        basis=found.table.basis,
        status=Status.CORRECT,
        rung=Rung.DONE,
        timings=tuple(
            Timing(shape, "cold in turns", time.us, time.low_us, time.high_us, time.n)
            for shape, time in timed
        ),
        environment=dict(found.table.environment),
    )
