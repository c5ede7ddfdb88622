"""A genome compiled for its GPU and checked by the emulator; nothing is timed, estimated or stored."""

from evoflash.evaluation import Basis, Evaluation, Rung, Status
from evoflash.evaluators.pipeline import settled
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, prepare
from evoflash.gpu import GpuSpec
from evoflash.isolation import IsolatedPool
from evoflash.problem import Problem
from evoflash.space import Genome


def emulated(genome: Genome, problem: Problem, spec: GpuSpec) -> Evaluation:
    """What became of it, in a process of its own; where nothing failed it is correct at the pre-flight."""
    with IsolatedPool(1) as pool:
        ending = pool.submit(prepare, genome, problem, spec, True, 0, timeout_s=PREPARE_LIMIT_S).result()
    prepared = settled(ending)
    why = prepared.failure
    return Evaluation(
        genome,
        str(problem),
        spec.name,
        Basis.ESTIMATED,
        why.status if why else Status.CORRECT,
        why.rung if why else Rung.PREFLIGHT,
        reason=why.reason if why else "",
        builds=prepared.builds,
        verdicts=prepared.verdicts,
    )
