"""Runs whose every part is known, for the tests of `evoflash report` and `evoflash dashboard`."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from evoflash.app.search.session import pairs_of
from evoflash.evaluation import (
    Baseline,
    Basis,
    Build,
    Evaluation,
    Proposal,
    Run,
    Rung,
    RunKey,
    Status,
    Timing,
    Verdict,
)
from evoflash.gpu.process.finals import FinalReport
from evoflash.gpu.timing.paired import PairedComparison
from evoflash.kernels.family import load_family
from evoflash.operations.attention.workload import AttentionKey
from evoflash.problem import parse_problem
from evoflash.space import Genome
from evoflash.specs import load_gpu
from evoflash.store.run_status import ComputeCost, charge
from evoflash.store.store import Store

MISSION = "b=1,h=8,hkv=8,sq=512,skv=512,d=64,dtype=fp16"
KEY = AttentionKey(64, "fp16", False, 1, "sm_90a")
SCRIPT = "</script><script>alert(1)</script>"  # a reason that no page may run


def genomes(count: int) -> list[Genome]:
    """A seed of flash_mma and what is reached from it, each one step away from the last."""
    gpu, problem = load_gpu("h200"), parse_problem(MISSION)
    family = load_family("flash_mma")
    space = family.space(problem.compile_keys(gpu.arch), gpu)
    found = [family.seeds_for(problem, space, gpu)[0]]
    while len(found) < count:
        near = (each for each in space.neighbours(found[-1]) if each not in found and space.is_valid(each))
        found.append(next(near))
    return found


def measured(
    genome: Genome, us: float | None, status: Status = Status.CORRECT, **other: object
) -> Evaluation:
    """An evaluation on the H200; without a time it failed."""
    timings = (Timing(MISSION, "cold", us, us * 0.98, us * 1.03, 40),) if us else ()
    made = Evaluation(
        genome,
        MISSION,
        "h200",
        Basis.MEASURED,
        status,
        Rung.DONE if status is Status.CORRECT else Rung.TIMING,
        builds=(Build(genome.id, KEY, "source", "cubin", registers=120, spill_bytes=8, compile_s=0.5),),
        verdicts=(Verdict(MISSION, True, 3e-4, 1e-3, 1e-5, 1.1),),
        timings=timings,
        score_us=us,
        environment={"smoke_s": "0.5", "timing_s": "1.5"},
    )
    return replace(made, **other)  # type: ignore[arg-type]  # fields of an evaluation


def built(genome: Genome, *, registers: int) -> tuple[Build, ...]:
    return (Build(genome.id, KEY, "source", "cubin", registers=registers),)


def begin(
    store: Store, *, strategy: str = "surrogate", basis: Basis = Basis.MEASURED, argv: Sequence[str] = ()
) -> Run:
    key = RunKey(MISSION, "h200", basis, strategy, 1)
    return store.begin(key, gpu_hash="abc", budget=20, argv=list(argv), environment={"versions": "of a test"})


def put(store: Store, run: Run, outcomes: Sequence[tuple[Evaluation, str, tuple[str, ...]]]) -> None:
    for evaluation, operator, parents in outcomes:
        store.add(run, evaluation, Proposal(evaluation.genome, operator=operator, parents=parents))


def fill(store: Store) -> Run:
    """A measured search with its finals: every ending, a duplicate, a library; and a random search."""
    seed, second, third, best, tied, wrong, slow, twin = genomes(8)
    run = begin(store, argv=["search", "--gpu", "h200", "--db", "postgresql://me:secret@host/db"])
    put(
        store,
        run,
        [
            (measured(seed, 20.0), "seed", ()),
            (measured(second, 16.0), "one_gene", (seed.id,)),
            (
                measured(wrong, None, Status.CORRECTNESS, rung=Rung.SMOKE, reason=SCRIPT),
                "one_gene",
                (seed.id,),
            ),
            (measured(third, 15.0), "two_genes", (second.id,)),
            (measured(slow, 90.0, Status.SCREENED), "sample", ()),
            (measured(tied, 12.1), "one_gene", (third.id,)),
            (measured(best, 12.0), "one_gene", (third.id,)),
            (measured(twin, 12.0, duplicate_of=best.id), "one_gene", (best.id,)),
        ],
    )
    finals(store, run, best, tied)
    charge(store.database, run, ComputeCost(gpu_s=30.0, cpu_s=90.0))
    random = begin(store, strategy="uniform")
    put(store, random, [(measured(slow, 90.0), "sample", ()), (measured(second, 16.5), "sample", ())])
    return run


def on_two_gpus(store: Store, *, slower: float) -> Run:
    """Twelve candidates beside one anchor, on two GPUs in turns; the second one is slower."""
    run = begin(store)
    for at, genome in enumerate(genomes(12)):
        name, factor = ("GPU-b", slower) if at % 2 else ("GPU-a", 1.0)
        us = 20.0 * factor * (1 + 0.0002 * (at // 2))
        noted = {"gpu_uuid": name, "anchor": "first screen", "anchor_us": f"{us:.6g}"}
        put(store, run, [(measured(genome, 30.0 + at, environment=noted), "sample", ())])
    return run


def finals(store: Store, run: Run, best: Genome, tied: Genome) -> None:
    """The final timing of two finalists and a library: 12.5, 12.6 and 14.0 us, the first two not apart."""
    times = {best.id: 12.5, tied.id: 12.6, "sdpa_flash": 14.0}
    timed = {
        name: (Timing(MISSION, "final-cold", us, us * 0.99, us * 1.02, 60),) for name, us in times.items()
    }
    for name in (best.id, tied.id):
        store.update_timings(run, name, timed[name], times[name])
    store.add_baseline(
        run, Baseline("sdpa_flash", MISSION, "h200", timed["sdpa_flash"], 14.0, {"torch": "2.9"})
    )
    pairs = (
        PairedComparison(tied.id, best.id, MISSION, "final-cold", 1.008, 0.999, 1.017, noise=0.01, n=60),
        PairedComparison(best.id, "sdpa_flash", MISSION, "final-cold", 0.893, 0.885, 0.901, noise=0.01, n=60),
        PairedComparison(tied.id, "sdpa_flash", MISSION, "final-cold", 0.9, 0.89, 0.91, noise=0.01, n=60),
    )
    ours = pairs_of(FinalReport(timed, pairs, {}, {}, {}), best.id)
    store.keep_final_pairs(run, [asdict(pair) for pair in ours])
