"""`evoflash search` on a stand-in for an H200, one step of which takes ten minutes. Tests nothing itself.

tests/app/search/test_termination.py starts it. EVOFLASH_TEST_SLOW names the step, EVOFLASH_TEST_NOTES the
folder in which the step leaves a note when it begins. The command line, store, loop, worker and processes are
the real ones; what runs in the GPU processes is not.
"""

import functools
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from evoflash.evaluation import Rung, Status, Timing
from evoflash.evaluators import prepare as preparing
from evoflash.gpu.process.finals import FinalReport
from evoflash.gpu.process.outcome import GpuOutcome
from evoflash.isolation import Ending

SLOW_S = 600.0
IN_GPU_PROCESSES = ("learn", "warm_up", "check", "time", "hidden", "finals")
IN_PREPARING_PROCESSES = ("prepare", "compiler")
IN_MAIN_PROCESS = ("seeds", "c_code")


def step(name):
    """What takes long, if it is the one that was asked for."""
    if os.environ["EVOFLASH_TEST_SLOW"] != name:
        return
    if name == "compiler":  # and whoever reads our stderr waits for it
        subprocess.Popen(["sleep", str(SLOW_S)])
    (Path(os.environ["EVOFLASH_TEST_NOTES"]) / name).touch()
    if name == "c_code":
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)
    time.sleep(SLOW_S)


def prepare(genome, problem, gpu, emulate, seed):
    """Compiled, and not emulated."""
    step("prepare")
    step("compiler")
    return preparing.prepare(genome, problem, gpu, False, seed)


def learn(*_):
    step("learn")


def warm_up():
    step("warm_up")


def nothing(*_):
    """No libraries to load."""


def screen(task):
    """Nothing is too slow."""
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.TIMING)


def check(task):
    step("check" if task.timed else "hidden")
    return GpuOutcome(task.genome_id, Status.CORRECT, Rung.CORRECTNESS)


def time_correct(task, outcome):
    step("time")
    us = 10.0 + int(task.genome_id[:4], 16) / 1000
    timings = tuple(Timing(str(workload), "cold", us, us, us, 5) for workload, _ in task.timed)
    return replace(outcome, rung=Rung.DONE, timings=timings, score_us=us)


def finals(task):
    step("finals")
    return Ending(FinalReport({}, (), {}, {}, {}))


def seeds_from_the_archive(*_):
    step("seeds")
    step("c_code")
    return ()


def main():
    from evoflash.app.search import plan as planning
    from evoflash.cli import program as cli
    from evoflash.evaluators import measured, pipeline
    from evoflash.gpu.process.warm_up import Jobs
    from evoflash.gpu.process.worker import GpuWorker
    from evoflash.specs import load_gpu

    jobs = Jobs(warm_up, learn, nothing, screen, check, time_correct, finals)
    measured.GpuWorker = functools.partial(GpuWorker, jobs=jobs)
    pipeline.prepare = prepare
    measured.MANY_CORES = 1 << 10  # none is emulated for its proof either
    planning._present = lambda wanted: load_gpu("h200")
    planning.champions.starts = seeds_from_the_archive
    cli.main()


if __name__ == "__main__":
    sys.modules["stopping"] = sys.modules["__main__"]  # processes find the functions under either name
    main()
