"""The commands that export a known genome, one for each kernel that its problem needs. Writes nothing."""

from evoflash.commands.options import db_words
from evoflash.gpu import load_gpu
from evoflash.operation import CompileKey, Workload
from evoflash.problem import Problem, parse_problem
from evoflash.space import Genome


def export_commands(genome: Genome, problem: str, gpu: str, *, is_known: bool = True) -> list[str]:
    """The commands that export it, one for each kernel that its problem needs.

    `is_known`: the id is enough, because it was evaluated for one problem and GPU only.
    """
    parts = one_kernel_each(problem, load_gpu(gpu).arch)
    base = f"evoflash export {genome.id}{db_words()}"
    if len(parts) == 1 and is_known:
        return [base]
    return [f"{base} --problem {part} --gpu {gpu}" for part in parts]


def one_kernel_each(problem: str, arch: str) -> list[Problem]:
    """The problem's workloads, divided into those that one compiled kernel serves."""
    groups: dict[CompileKey, list[Workload]] = {}
    for workload in parse_problem(problem).workloads:
        groups.setdefault(workload.compile_key(arch), []).append(workload)
    return [Problem(tuple(workloads)) for workloads in groups.values()]
