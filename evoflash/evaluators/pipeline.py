"""What both evaluators share: genomes prepared in worker processes, in order, and which ones are twins."""

import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace

from evoflash.evaluation import Basis, Build, Evaluation, Launch, Proposal, Rung, Status
from evoflash.evaluators.prepare import PREPARE_LIMIT_S, Failure, Prepared, prepare
from evoflash.family import load_family
from evoflash.gpu import GpuSpec
from evoflash.isolation import Ending, IsolatedPool
from evoflash.problem import Problem
from evoflash.space import Genome


class Pipeline:
    """Proposals under preparation, handed back oldest first."""

    def __init__(
        self,
        problem: Problem,
        gpu: GpuSpec,
        *,
        seed: int,
        history: Iterable[Evaluation] = (),
        workers: int | None = None,
    ) -> None:
        """`workers` processes compile and emulate; the default is one a core.

        `history` is what the run has evaluated before: twins of its kernels cost no budget.
        """
        self._problem, self._gpu, self._seed = problem, gpu, seed
        self.twins = Twins(problem, gpu, history)
        self.workers = workers or len(os.sched_getaffinity(0))
        self._pool = self._make_pool()
        self._queue: deque[tuple[Proposal, Future[Ending[Prepared]]]] = deque()

    def _make_pool(self) -> IsolatedPool:
        return IsolatedPool(self.workers)

    def __len__(self) -> int:
        return len(self._queue)

    def submit(self, proposal: Proposal, *, emulate: bool) -> None:
        """Start preparing; returns at once."""
        genome = proposal.genome
        # Inputs differ from genome to genome and from run to run, and a genome's repeat.
        seed = self._seed ^ int(genome.id[:12], 16)
        future = self._pool.submit(
            prepare, genome, self._problem, self._gpu, emulate, seed, timeout_s=PREPARE_LIMIT_S
        )
        self._queue.append((proposal, future))

    def next(self, basis: Basis) -> tuple[Proposal, Evaluation, Prepared | None]:
        """The oldest proposal and its evaluation so far; Prepared if a time is still wanted. Waits for it."""
        proposal, future = self._queue[0]
        ending = future.result()
        self._queue.popleft()
        prepared = ending.value or Prepared(failure=Failure(ending.status, Rung.PREFLIGHT, ending.reason))
        evaluation = Evaluation(
            genome=proposal.genome,
            problem=str(self._problem),
            gpu=self._gpu.name,
            basis=basis,
            status=Status.CORRECT,
            rung=Rung.DONE,
            builds=prepared.builds,
            verdicts=prepared.verdicts,
        )
        if prepared.failure:
            failure = prepared.failure
            return (
                proposal,
                replace(evaluation, status=failure.status, rung=failure.rung, reason=failure.reason),
                None,
            )
        twin = self.twins.find(proposal.genome, prepared.builds)
        if twin is not None:
            same = replace(twin, genome=proposal.genome, builds=prepared.builds, duplicate_of=twin.genome.id)
            return proposal, same, None
        return proposal, evaluation, prepared

    def cancel(self) -> None:
        """Drop everything under preparation."""
        if self._queue:
            self._pool.close()
            self._pool = self._make_pool()
            self._queue.clear()

    def close(self) -> None:
        """End the worker processes."""
        self._pool.close()


class Twins:
    """Which genome first had a machine code and its launches: a second one costs no budget."""

    def __init__(self, problem: Problem, gpu: GpuSpec, history: Iterable[Evaluation]) -> None:
        """`history` is what the run has evaluated before."""
        self._problem, self._gpu = problem, gpu
        self._first: dict[tuple[tuple[str, ...], tuple[Launch, ...]], Evaluation] = {}
        for evaluation in history:
            self.remember(evaluation)

    def find(self, genome: Genome, builds: tuple[Build, ...]) -> Evaluation | None:
        """The evaluation of another genome that is the same kernel, if there was one."""
        twin = (
            self._first.get(self._key(genome, builds)) if builds and all(b.text_sha for b in builds) else None
        )
        return twin if twin is not None and twin.genome != genome else None

    def remember(self, evaluation: Evaluation) -> None:
        """Keep the first evaluation of each kernel."""
        if evaluation.builds and all(b.text_sha for b in evaluation.builds) and not evaluation.duplicate_of:
            self._first.setdefault(self._key(evaluation.genome, evaluation.builds), evaluation)

    def _key(self, genome: Genome, builds: tuple[Build, ...]) -> tuple[tuple[str, ...], tuple[Launch, ...]]:
        family = load_family(genome.family)
        launches = tuple(
            launch
            for workload in self._problem.workloads
            for launch in family.launches(genome, workload, self._gpu)
        )
        return tuple(build.text_sha for build in builds), launches
