"""The folder for FLASHINFER_TRACE_APPLY_PATH: what is in it, and a FlashInfer that sends its calls there."""

import ast
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from exported_cases import exported
from tables import table_of_cases

from evoflash.errors import UsageError
from evoflash.exports import flashinfer_trace
from evoflash.exports.kinds import KINDS
from evoflash.operations.linear.workload import ROW_CLASSES
from evoflash.problem import parse_problem

NAME = "fp8_blockscale_gemm_sm90_n1280_k1024"
# Run in a Python of its own, since FlashInfer replaces its functions when it is imported.
ROUTED = """
import json, sys
import torch, flashinfer
from flashinfer import gemm, trace_apply
from flashinfer.trace_apply import apply

torch.cuda.is_current_stream_capturing = lambda: False  # a build of PyTorch without CUDA raises
asked = []

def reference(x, w, scale):
    asked.append(tuple(x.shape))
    whole = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)[: w.shape[0], : w.shape[1]]
    return (x.double() @ (w.double() * whole).T).bfloat16()

(solution,) = apply._solutions.values()
module = apply._get_loaded_solution(solution).__globals__
kernels = module["linear"]
x, w = torch.randn(3, 1024).bfloat16(), torch.randn(1280, 1024).to(torch.float8_e4m3fn)
scale, out = torch.rand(10, 8), torch.empty(3, 1280, dtype=torch.bfloat16)
try:
    gemm.fp8_blockscale_gemm_sm90(x, w, None, scale)
except ValueError as error:  # of FlashInfer, which has no kernel for a CPU
    elsewhere = str(error)
module["linear"] = reference
first = gemm.fp8_blockscale_gemm_sm90(x, w, None, scale, out_dtype=torch.bfloat16)
second = gemm.fp8_blockscale_gemm_sm90(x, w, weight_scale=scale, out=out)
print(json.dumps({
    "kernels": len(kernels.kernels), "elsewhere": elsewhere, "asked": asked,
    "equal": torch.equal(first, reference(x, w, scale)) and torch.equal(second, first), "out": second is out,
    "hits": sum(each.get("hit", 0) for each in trace_apply.stats().values()),
}))
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace") / "flashinfer-trace"
    written = flashinfer_trace.write(exported("rows of W"), folder)
    return [each.relative_to(folder).as_posix() for each in written], folder


def test_a_solution_and_its_definition_fit_together(files):
    names, folder = files

    assert names == [".", f"solutions/{NAME}.json", f"definitions/gemm_fp8/{NAME}.json"]
    solution, definition = (json.loads((folder / name).read_text()) for name in names[1:])
    assert solution["definition"] == definition["name"] == NAME
    (source,) = solution["sources"]
    tree = ast.parse(source["content"])
    run = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "run")
    assert solution["spec"]["entry_point"] == f"{source['path']}::run"
    assert [argument.arg for argument in run.args.args] == list(definition["inputs"])
    assert solution["spec"]["destination_passing_style"] is False  # FlashInfer makes no output for such


def test_there_is_a_kernel_for_each_class_of_rows_that_the_genome_is_valid_for():
    made = flashinfer_trace.variants(exported("rows of W"))
    most = [each.compile_key.rows for each in made]

    assert most[0] == 2, "the problem's own comes first: what is known of it stands at the file's head"
    assert sorted(most) == [rows for rows in ROW_CLASSES if rows <= 8]  # linear_simt has kernels for these


def test_a_folder_may_have_several_solutions(tmp_path):
    folder, case = tmp_path / "flashinfer-trace", exported("rows of W")
    other = replace(case, problem=parse_problem("linear:m=2,n=640,k=1024,dtype=fp8b128"))

    for each in (case, other):
        flashinfer_trace.write(each, folder)

    assert len(list((folder / "solutions").iterdir())) == 2


@table_of_cases()
def test_what_flashinfer_never_asks_for_is_refused(problem, complaint, tmp_path):
    case = exported("plain") if problem is None else exported("rows of W")
    if problem is not None:
        case = replace(case, problem=parse_problem(problem))

    with pytest.raises(UsageError, match=complaint) as refused:
        flashinfer_trace.write(case, tmp_path / "flashinfer-trace")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "flashinfer-trace").exists()


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if kind.name != "t4"])
def test_no_kind_is_silently_for_attention_alone(kind, tmp_path):
    path = tmp_path / {"cubin": "k.cubin", "cu": "k.cu"}.get(kind, "k")
    write = next(each for each in KINDS if each.name == kind).write
    if kind == "cupy":
        with pytest.raises(UsageError, match=r"linear: CuPy has no .*: use --kind torch"):
            write(exported("rows of W"), path)
        return

    written = write(exported("rows of W"), path)

    texts = [each.read_text() for each in written if each.suffix in (".py", ".json", ".md")]
    assert not any("scaled_dot_product" in text or "Attention" in text for text in texts if "Linear" in text)


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "flashinfer"))), reason="needs PyTorch and FlashInfer"
)
def test_an_unmodified_flashinfer_sends_its_call_to_the_kernel(files, monkeypatch):
    _, folder = files
    monkeypatch.setenv("FLASHINFER_TRACE_APPLY", "1")
    monkeypatch.setenv("FLASHINFER_TRACE_APPLY_PATH", str(folder))
    monkeypatch.setenv("HOME", str(folder.parent))  # where it unpacks Solutions

    ended = subprocess.run([sys.executable, "-c", ROUTED], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert (found["kernels"], found["hits"]) == (4, 2)
    assert (found["equal"], found["out"]) == (True, True)
    assert found["asked"][:2] == [[3, 1024], [3, 1024]]
    assert "cuda" in found["elsewhere"], "what no kernel takes goes to FlashInfer's own"
