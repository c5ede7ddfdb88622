"""launch.json: its expressions are the families' own, it reads back whole, nothing damaged is launched."""

import copy
import json
import random

import numpy as np
import pytest
from exported_cases import CASES, exported
from tables import data, table_of_cases

from evoflash.errors import UsageError
from evoflash.exports.cubin import write
from evoflash.exports.exported import ExportRequest, gpus_of
from evoflash.exports.launch_json import artefact, launching
from evoflash.kernels.expression import Expression, of_sizes
from evoflash.kernels.family import families_for, load_family
from evoflash.operations.attention.workload import AttentionWorkload
from evoflash.problem import parse_problem
from evoflash.runtime.attention_dense import SIZES
from evoflash.runtime.description import Refused, parse_description
from evoflash.runtime.expressions import compile_expression
from evoflash.runtime.launch import FORMS, Kernel
from evoflash.specs import load_gpu

PROBLEMS = (
    "b=2,h=8,hkv=2,sq=300,skv=700,d=128,dtype=fp16,causal",
    "b=1,h=4,hkv=4,sq=64,skv=64,d=64,dtype=bf16",
    "b=16,h=32,hkv=8,sq=1,skv=8192,d=128,dtype=fp16",
)
SHAPES = list(data(__file__, "SHAPES", tuples=True))


def like(
    workload: AttentionWorkload, batch: int, kv_heads: int, seq_q: int, seq_kv: int
) -> AttentionWorkload:
    return workload.compile_key("sm_90a").workload(batch, kv_heads, seq_q, seq_kv)


def genomes(family, problem, gpu, count, seed):
    """Valid ones; few families need many draws."""
    space = load_family(family).space(problem.compile_keys(gpu.arch), gpu)
    rng = np.random.default_rng(seed)
    return [space.sample(rng) for _ in range(count)]


@pytest.mark.cover
@pytest.mark.parametrize("text", PROBLEMS)
@pytest.mark.parametrize("family", [family.name for family in families_for(load_gpu("h200"))])
@pytest.mark.sample(4)
def test_the_launcher_works_out_what_the_family_works_out(family, text):
    gpu, problem = load_gpu("h200"), parse_problem(text)
    for genome in genomes(family, problem, gpu, 12, seed=len(text)):
        given = launching(genome, problem.workloads[0], gpu)
        image = {"file": "", "sha256": "", **given}
        read = parse_description(minimal(images={"sm_90a": image}), FORMS).images[0]
        for shape in SHAPES:
            workload = like(problem.workloads[0], *shape)
            sizes = {name: workload.names()[name] for name in SIZES}
            launches = load_family(family).launches(genome, workload, gpu)
            worked_out = [
                (
                    launch.entry,
                    tuple(side(sizes) for side in launch.grid),
                    tuple(side(sizes) for side in launch.block),
                    launch.shared_bytes(sizes),
                    launch.cluster,
                    read.workspace_bytes(sizes),
                    read.zeroed_bytes(sizes),
                )
                for launch in read.launches
            ]
            assert worked_out == [
                (x.entry, x.grid, x.block, x.smem_bytes, x.cluster, x.workspace_bytes, x.zeroed_bytes)
                for x in launches
            ]


def minimal(**changes):
    contract = {"dtype": "fp16", "head_dim": 64, "gqa_ratio": 1, "causal": False, "scale": 0.125}
    return {
        "format": "evoflash-launch",
        "version": 1,
        "name": "k",
        "contract": contract,
        "images": {},
        **changes,
    }


def folded(text, **names):
    return of_sizes(Expression(text, "test", (int,)), names, SIZES)


@table_of_cases()
def test_what_no_shape_changes_becomes_a_number(text, names, said):
    assert folded(text, **names) == said
    sizes = dict(zip(SIZES, (2, 8, 4, 100, 300), strict=True))
    direct = Expression(text, "test", (int,))({**names, **sizes})
    assert compile_expression(said, SIZES)(sizes) == direct


def test_a_division_that_is_not_whole_cannot_be_exported():
    with pytest.raises(Exception, match="write // or ceil_div"):
        folded("seq_q / 2")


EVIL = (*data(__file__, "EVIL"), "x" * 5000, "(" * 3000 + "1" + ")" * 3000)


@pytest.mark.parametrize("text", EVIL, ids=lambda text: text[:20])
def test_an_expression_of_anything_but_sizes_is_not_evaluated(text):
    if text.strip() == "batch":
        assert compile_expression(text, SIZES)({"batch": 3}) == 3
        return
    with pytest.raises(ValueError, match="is no expression"):
        compile_expression(text, SIZES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("export")
    write(exported("tensor maps"), made / "kernel.cubin")
    return made


def test_a_written_kernel_reads_back_whole(folder):
    read = Kernel.read(folder / "kernel.json")

    case = exported("tensor maps")
    assert read.description == artefact(case, command=case.command("cubin", "kernel.cubin")).description
    assert sorted(path.name for path in folder.iterdir()) == ["kernel.cubin", "kernel.json"]


def test_a_folder_with_launch_json_reads_back_whole(folder, tmp_path):
    (tmp_path / "kernel.cubin").write_bytes((folder / "kernel.cubin").read_bytes())
    (tmp_path / "launch.json").write_text((folder / "kernel.json").read_text())

    assert Kernel.read(tmp_path).description["name"].startswith("flash_wgmma_")


def edited(folder, tmp_path, change):
    description = json.loads((folder / "kernel.json").read_text())
    change(description, description["images"]["sm_90a"])
    (tmp_path / "kernel.cubin").write_bytes((folder / "kernel.cubin").read_bytes())
    (tmp_path / "launch.json").write_text(json.dumps(description))
    return tmp_path


DAMAGE = {
    "a cubin of another kernel": (lambda d, i: i.update(sha256="0" * 64), "is not the cubin"),
    "a file that is missing": (lambda d, i: i.update(file="other.cubin"), "cannot be read"),
    "a file elsewhere": (lambda d, i: i.update(file="../../etc/passwd"), "no launch.json"),
    "an absolute file": (lambda d, i: i.update(file="/etc/passwd"), "no launch.json"),
    "a later version": (lambda d, i: d.update(version=2), "this launcher reads 1"),
    "a form of later versions": (lambda d, i: d.update(form="other"), "this launcher knows dense"),
    "another format": (lambda d, i: d.update(format="other"), "'format' is not"),
    "no contract": (lambda d, i: d.pop("contract"), "damaged"),
    "no launches": (lambda d, i: i.pop("launches"), "damaged"),
    "a grid of two": (lambda d, i: i["launches"][0].update(grid=[1, 2]), "damaged"),
    "a grid that runs code": (lambda d, i: i["launches"][0].update(grid=["exit()", 1, 1]), "damaged"),
    "an argument that is unknown": (lambda d, i: i["arguments"].append("pointer x"), "damaged"),
    "an argument of another kind": (lambda d, i: i["arguments"].append("int8 heads"), "damaged"),
    "a map of no tensor": (lambda d, i: i["tensor_maps"][0].update(of="x"), "damaged"),
    "images that are a list": (lambda d, i: d.update(images=[1]), "damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_description_is_refused_in_one_line(case, folder, tmp_path):
    change, said = DAMAGE[case]

    with pytest.raises(Refused, match=said) as refused:
        Kernel.read(edited(folder, tmp_path, change))

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", '{"format": "evoflash-launch"}'])
def test_what_is_no_description_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "launch.json").write_text(text)

    with pytest.raises(Refused):
        Kernel.read(tmp_path)


def test_a_description_with_a_value_replaced_is_refused_or_read_and_raises_nothing_else(folder):
    description = json.loads((folder / "kernel.json").read_text())
    image, rng = (folder / "kernel.cubin").read_bytes(), random.Random(1)
    for _ in range(400):
        broken = copy.deepcopy(description)
        spoil(broken, rng)
        refusal = refusal_of(broken, {"sm_90a": image})
        assert refusal is None or "\n" not in str(refusal)


def refusal_of(description, images):
    try:
        Kernel(description, images)
    except Refused as error:
        return error
    return None


def spoil(node, rng):
    """Replaces one value anywhere in the description."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and rng.random() < 0.8:
            node = node[key]
            continue
        node[key] = rng.choice([None, -1, 10**30, "", "batch", [], {}, 1.5, True, "\x00"])
        return


def test_a_cubin_is_made_for_each_architecture_that_is_asked_for(tmp_path):
    case = exported("plain", gpu="h200")
    others = gpus_of(["sm_90a", "sm_89", "sm_80"], case.genome, case.problem, case.gpu)
    both = ExportRequest(case.genome, case.problem, case.gpu, others=others)

    written = write(both, tmp_path / "k.cubin")

    names = ["k.sm_90a.cubin", "k.sm_89.cubin", "k.sm_80.cubin", "k.json"]
    assert sorted(path.name for path in written) == sorted(names)
    assert list(Kernel.read(tmp_path / "k.json").description["images"]) == ["sm_90a", "sm_89", "sm_80"]


def test_an_architecture_without_a_known_gpu_is_named():
    case = exported("plain")

    with pytest.raises(UsageError, match=r"--arch sm_75: no known GPU has it: use sm_80"):
        gpus_of(["sm_90a", "sm_75"], case.genome, case.problem, case.gpu)


def test_a_problem_that_needs_several_kernels_is_refused(tmp_path):
    case = exported("plain")
    both = parse_problem(f"{case.problem}+mission,causal")

    with pytest.raises(UsageError, match="need 2 different kernels"):
        write(ExportRequest(case.genome, both, case.gpu), tmp_path / "k.cubin")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(4)
def test_the_same_export_is_the_same_bytes(name):
    case = exported(name)

    assert artefact(case) == artefact(case)
