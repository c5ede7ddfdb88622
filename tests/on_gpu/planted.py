"""A plain correct attention kernel with evoflash's ABI, and the same with one mistake planted in it."""

from nvrtc_texts import compiled
from places import TESTS

from evoflash.gpu.process.rungs import GpuTask
from evoflash.launch import LaunchConfig
from evoflash.operations.attention.workload import AttentionKey, AttentionWorkload

ROWS = 4  # query rows of a block, a warp each
BIG_HEADS = 64  # what a mistake "at size" takes for the benchmark's shape
HIDDEN_HEAD = 5  # of those: one that no sample holds

# FAULT picks a mistake; 0 is none. One warp walks one row's keys with an online softmax in fp32.
SOURCE = (TESTS / "on_gpu" / "planted.cu").read_text()

FAULTS = {
    "none": 0,
    "writes just past O": 1,
    "writes far outside": 2,
    "never ends": 3,
    "leaves a NaN": 4,
    "drops the last key": 5,
    "writes into K": 6,
    "gives another result each time": 8,
    "is right only while it is checked": 9,
    "takes Q for dense": 13,
    "writes just past O at size": 101,
    "writes into K at size": 106,
    "leaves a NaN in one head at size": 110,
    "gives another result each time in one head at size": 111,
    "has one wrong row in one head at size": 112,
}


def build(folder, key: AttentionKey, fault: str) -> str:
    """Compile for one key; the cubin's path."""
    path = folder / f"{key}-{FAULTS[fault]}.cubin"
    if not path.exists():
        numbers = {"D": key.head_dim, "BF16": key.dtype == "bf16", "CAUSAL": key.causal, "ROWS": ROWS}
        at_size, number = divmod(FAULTS[fault], 100)
        numbers |= {"FAULT": number, "AT_SIZE": at_size, "BIG_HEADS": BIG_HEADS, "HIDDEN_HEAD": HIDDEN_HEAD}
        defines = [f"-D{name}={int(value)}" for name, value in numbers.items()]
        path.write_bytes(compiled(SOURCE, key.arch, *defines)[1])
    return str(path)


def launches_of(
    workload: AttentionWorkload, *, smem_bytes=0, entry="planted", times=1
) -> tuple[LaunchConfig, ...]:
    grid = (-(-workload.seq_q // ROWS), workload.heads, workload.batch)
    return (LaunchConfig(entry, grid, (32 * ROWS, 1, 1), smem_bytes),) * times


def task_of(spec, folder, *, checks, timed=(), fault="none", name="", **launch) -> GpuTask:
    """A planted kernel as a task; `launch` goes to launches_of()."""
    keys = dict.fromkeys(workload.compile_key(spec.arch) for workload in (*checks, *timed))
    return GpuTask(
        genome_id=name or fault,
        spec=spec,
        cubins=tuple((key, build(folder, key, fault)) for key in keys),
        checks=tuple((workload, launches_of(workload, **launch)) for workload in checks),
        timed=tuple((workload, launches_of(workload, **launch)) for workload in timed),
        seed=20261121,
    )
