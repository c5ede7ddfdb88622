"""flash_simt, the scalar family: golden texts, odd shapes in the emulator, planted mistakes, export."""

import numpy as np
import pytest
from gene_cases import cases_of
from nvrtc_texts import compiled

from evoflash.emulator import launch as emulator
from evoflash.emulator.preflight import preflight
from evoflash.kernels import gxx
from evoflash.kernels.family import load_family
from evoflash.kernels.renderer import lint, render
from evoflash.kernels.standalone import export_kernel
from evoflash.operation import Schedule
from evoflash.operations.attention.forms.dense import arguments
from evoflash.operations.attention.inputs import draw
from evoflash.operations.attention.workload import HEAD_DIMS, AttentionKey, AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu

FAMILY, GPU = load_family("flash_simt"), load_gpu("l4")
SEEDS = {seed.name: seed.values for seed in FAMILY.seeds}
FULL = AttentionKey(64, "fp16", False, 1, "sm_89")
CAUSAL = AttentionKey(80, "bf16", True, 4, "sm_89")
# Between them: both loop orders, both splits, both reductions, every softmax, every home of Q, K and V.
KV_OUTER, PER_KEY = (cases_of("flash_simt").said["kernel"][name] for name in ("kv_outer", "per_key"))
GOLDEN = {
    "naive": (FULL, SEEDS["naive"]),
    "tiled": (FULL, SEEDS["tiled"]),
    "kv_outer_causal": (CAUSAL, KV_OUTER),
    "per_key_causal": (CAUSAL, PER_KEY),
}


def candidate(key: AttentionKey, values):
    space = FAMILY.space((key,), GPU)
    genome = space.genome(values)
    assert space.violations(genome) == ()
    return render(genome, key, GPU)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rendered_kernel_is_the_golden_one(name, golden):
    golden(f"flash_simt-{name}.cu", candidate(*GOLDEN[name]).source)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
def test_every_head_dim_has_a_seed(head_dim):
    for gpu in map(load_gpu, ("a100", "l4", "h200")):
        space = FAMILY.space((AttentionKey(head_dim, "bf16", True, 1, gpu.arch),), gpu)
        assert any(space.is_valid(space.genome(values)) for values in SEEDS.values())


def test_the_slowest_genome_is_a_seed_of_both_usual_head_dims():
    """One thread a row, K and V from global memory, one element a load: where the ladder begins."""
    for head_dim in (64, 128):
        values = dict(
            candidate(AttentionKey(head_dim, "fp16", False, 1, "sm_89"), SEEDS["naive"]).genome.values
        )
        assert (values["lanes_per_row"], values["vec"], values["kv_home"]) == (1, 1, "global")


ODD = {
    "naive": (SEEDS["naive"], (16, 80, 96, 208)),
    "warp_per_row": (SEEDS["warp_per_row"], (64, 192, 256)),
    "tiled": (SEEDS["tiled"], (16, 80, 96, 256)),
    "two_rows": (SEEDS["two_rows"], (16, 80, 96)),
    "kv_outer": (KV_OUTER, (16, 80, 96)),
    "per_key": (PER_KEY, (16, 80, 96)),
}


@pytest.mark.parametrize(("name", "head_dim"), [(name, d) for name, (_, dims) in ODD.items() for d in dims])
@pytest.mark.sample(1)
def test_it_is_right_at_odd_shapes(name, head_dim):
    key = AttentionKey(head_dim, "bf16" if head_dim == 80 else "fp16", head_dim != 96, 1, GPU.arch)

    found = preflight(candidate(key, ODD[name][0]), FAMILY, GPU, seed=head_dim)

    assert found.complaint == ""
    assert found.verdicts


@pytest.mark.cover
@pytest.mark.parametrize("head_dim", [16, 48, 112, 192])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.sample(1)
def test_random_genomes_pass_without_a_report(head_dim, causal):
    key = AttentionKey(head_dim, "bf16" if causal else "fp16", causal, 1, GPU.arch)
    space, rng = FAMILY.space((key,), GPU), np.random.default_rng([head_dim, causal])
    for seed in range(2):
        genome = space.sample(rng)
        text = render(genome, key, GPU)
        assert lint(text.source) == ()
        assert preflight(text, FAMILY, GPU, seed=seed).complaint == "", genome


def run(text, workload: AttentionWorkload, *, schedule: Schedule, seed: int):
    """O and LSE of one launch, as bits."""
    trial = draw("normal", workload, seed=3)
    (launch,) = FAMILY.launches(text.genome, workload, GPU)
    with emulator.Memory() as memory:
        inputs = [
            memory.array(name, x.shape, x.dtype, fill=x)
            for name, x in zip("QKV", (trial.q, trial.k, trial.v), strict=True)
        ]
        out = memory.array("O", trial.q.shape, np.uint16, writable=True)
        lse = memory.array("LSE", trial.q.shape[:3], np.float32, writable=True)
        pointers = arguments(workload, tuple(array.ctypes.data for array in (*inputs, out, lse)))
        library = gxx.build(text.source, name=FAMILY.name)
        found = emulator.run_launch(library, launch, pointers, schedule=schedule, seed=seed)
        assert found.reports == ()
        return out.tobytes() + lse.tobytes()


@pytest.mark.parametrize("values", [SEEDS["tiled"], KV_OUTER], ids=["tiled", "kv_outer"])
@pytest.mark.sample(1)
def test_the_bits_do_not_depend_on_the_schedule(values):
    workload = AttentionWorkload(1, 4, 1, 45, 37, 80, "bf16", True)
    text = candidate(CAUSAL, values)

    fifo = run(text, workload, schedule="fifo", seed=1)

    assert run(text, workload, schedule="random", seed=1) == fifo
    assert run(text, workload, schedule="random", seed=2) == fifo


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.sample(1)
def test_the_exported_file_compiles_with_no_include_path(name):
    key, values = GOLDEN[name]
    mask = ",causal" if key.causal else ""
    problem = parse_problem(
        f"b=1,h=4,hkv={4 // key.gqa_ratio},s=200,d={key.head_dim},dtype={key.dtype}{mask}"
    )
    genome = FAMILY.space(problem.compile_keys(GPU.arch), GPU).genome(values)

    text = export_kernel(genome, problem, GPU)

    assert "ef.h" not in text
    assert ("smem_static" in text) == (values.get("smem_home") == "static")
    compiled(text, GPU.arch)


def test_rendering_twice_gives_the_same_bytes():
    assert candidate(FULL, SEEDS["tiled"]) == candidate(FULL, SEEDS["tiled"])
