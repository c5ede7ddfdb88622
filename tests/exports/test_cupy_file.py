"""attention.py: one file, without evoflash, called with anything that says where it lies on a GPU.

CuPy makes no array without a GPU: the arrays here are addresses with `__cuda_array_interface__`, the driver
is the one that records. tests/on_gpu/test_runtime.py runs the file.
"""

import importlib.util
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from exported_cases import exported
from recording import number, sizes_of
from tables import data

from evoflash.errors import TemplateError
from evoflash.exports import one_file
from evoflash.exports.launch_json import artefact
from evoflash.runtime.array_attention import Attention
from evoflash.runtime.launch import Kernel, Refused

GPU0 = 7 << 44  # where the recording driver's device 0 has its memory


class OnGpu:
    """An array on the GPU as other libraries see it."""

    def __init__(self, shape, *, at=GPU0 + 4096, typestr="<f2", strides=None):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (at, False),
            "version": 3,
        }


def attention_of(recorder, name="plain"):
    made = artefact(exported(name))
    recorder.expects(sizes_of(next(iter(made.description["images"].values()))))
    return Attention(Kernel(made.description, made.images, driver=recorder.path))


def tensors(q=(2, 4, 100, 64), k=(2, 2, 200, 64)):
    return {
        "q": OnGpu(q, at=GPU0 + 0x1000000),
        "k": OnGpu(k, at=GPU0 + 0x2000000),
        "v": OnGpu(k, at=GPU0 + 0x3000000),
        "out": OnGpu(q, at=GPU0 + 0x4000000),
    }


def strides_of(launched):
    return [number(argument) for argument in launched.arguments[9:21]]


def test_arrays_are_launched_where_they_lie(recorder):
    given = tensors()
    lse = OnGpu((2, 4, 100), at=GPU0 + 0x5000, typestr="<f4")

    out = attention_of(recorder)(**given, lse=lse, stream=0x77)

    (launched,) = recorder.launches()
    assert out is given["out"]
    assert [number(argument) - GPU0 for argument in launched.arguments[:5]] == [
        *(0x1000000, 0x2000000, 0x3000000, 0x4000000, 0x5000)
    ]
    assert [number(argument) for argument in launched.arguments[5:9]] == [100, 200, 4, 2]
    assert strides_of(launched)[:3] == [4 * 100 * 64, 100 * 64, 64]
    assert launched.what.endswith("stream 0x77")


def test_rows_before_heads_need_no_copy(recorder):
    given = tensors(q=(2, 100, 4, 64), k=(2, 200, 2, 64))

    attention_of(recorder)(**given, layout="bshd", stream=0)

    (launched,) = recorder.launches()
    assert strides_of(launched) == [
        *(25_600, 64, 256),
        *(25_600, 64, 128),
        *(25_600, 64, 128),
        *(25_600, 64, 256),
    ]


def test_a_view_of_a_larger_array_needs_no_copy(recorder):
    given = tensors()
    given["k"] = OnGpu((2, 2, 200, 64), strides=(2 * 2 * 500 * 64, 2 * 500 * 64, 2 * 64, 2))

    attention_of(recorder)(**given, stream=0)

    assert strides_of(recorder.launches()[0])[3:6] == [64_000, 32_000, 64]


def test_bf16_is_taken_as_itself_or_as_bits(recorder):
    call = attention_of(recorder, "static shared memory")
    for typestr in ("<V2", "<u2"):
        given = tensors()
        for array in given.values():
            array.__cuda_array_interface__["typestr"] = typestr
        call(**given, stream=0)

    assert len(recorder.launches()) == 2


class NoGpu:
    """What no library knows."""


def interface(array, **changes):
    """The array with other words in its description."""
    array.__cuda_array_interface__ |= changes
    return array


def changed(**changes):
    return {**tensors(), "stream": 0, **changes}


BAD_CALLS = {
    name: (changed(**{key: OnGpu(**it) if isinstance(it, dict) else it for key, it in changes.items()}), said)
    for name, (changes, said) in data(__file__, "BAD_CALLS", tuples=True).items()
} | {
    "an array of the host": (changed(k=NoGpu()), "k is a NoGpu: give an array that lies on the GPU"),
    "memory of the host": (changed(q=OnGpu((2, 4, 100, 64), at=4096)), "q is not in the memory of a GPU"),
    "a slice that begins off 16 bytes": (
        changed(q=OnGpu((2, 4, 100, 64), at=GPU0 + 8)),
        "begins at an address",
    ),
    "two GPUs": (changed(k=OnGpu((2, 2, 200, 64), at=(8 << 44) + 16)), "k on GPU 1"),
    "None": (changed(k=None), "k is a NoneType"),
    "a list": (changed(v=[[1.0]]), "v is a list"),
    "a NumPy array": (changed(q=np.zeros((2, 4, 100, 64), "float16")), "q cannot be read by DLPack"),
    "masked elements": (changed(q=interface(tensors()["q"], mask=NoGpu())), "q has masked elements"),
    "a read-only output": (
        changed(out=interface(tensors()["out"], data=(GPU0 + 0x4000000, True))),
        "out is read-only",
    ),
    "an output in the memory of k": (changed(out=OnGpu((2, 4, 100, 64), at=GPU0 + 0x2000000)), "overlaps k"),
    "an output that ends in q": (
        changed(out=OnGpu((2, 4, 100, 64), at=GPU0 + 0x1000000 - 2 * 2 * 4 * 100 * 64 + 16)),
        "overlaps q",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_a_call_that_the_kernel_is_not_for_ends_in_one_line(case, recorder):
    given, said = BAD_CALLS[case]
    recorder.machine(devices=2)

    with pytest.raises(Refused, match=said) as refused:
        attention_of(recorder)(**given)

    assert "\n" not in str(refused.value)
    assert recorder.launches() == []


class OnlyDlpack:
    """An array of another library, which says by DLPack alone where it lies."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        raise AssertionError("CuPy reads it")


def test_arrays_that_know_dlpack_alone_are_launched_where_they_lie(recorder, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(from_dlpack=lambda given: given.array))
    given = tensors()

    attention_of(recorder)(**{name: OnlyDlpack(array) for name, array in given.items()}, stream=0)

    at = [number(argument) for argument in recorder.launches()[0].arguments[:4]]
    assert at == [array.__cuda_array_interface__["data"][0] for array in given.values()]


def test_an_array_of_another_library_on_the_cpu_is_refused_in_one_line(recorder):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    with pytest.raises(Refused, match="q is on the cpu: move it to the GPU"):
        attention_of(recorder)(**changed(q=torch.zeros(2, 4, 100, 64, dtype=torch.float16)))


def test_an_output_just_behind_an_input_does_not_overlap_it(recorder):
    behind = GPU0 + 0x1000000 + 2 * 2 * 4 * 100 * 64

    attention_of(recorder)(**changed(out=OnGpu((2, 4, 100, 64), at=behind)))

    assert len(recorder.launches()) == 1


def test_another_gpu_is_refused(recorder):
    recorder.machine(capability=89)

    with pytest.raises(Refused, match=r"was compiled for sm_90a; GPU 0 is a Recorder \(sm_89\)"):
        attention_of(recorder)(**tensors(), stream=0)


# ---- the file


@pytest.fixture(scope="module")
def text():
    case = exported("tensor maps")
    made = artefact(case, command=case.command("cupy", "attention.py"))
    return one_file.text_of("cupy", (made,), "attention")


def test_the_file_loads_in_a_python_without_evoflash_or_cupy(text, tmp_path):
    (tmp_path / "attention.py").write_text(text)
    # Neither site packages nor variables: the standard library and this folder.
    command = [sys.executable, "-E", "-S", "-c", "import attention; print(attention.attention.kernel)"]

    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert done.stderr == ""
    assert done.stdout.startswith("<attention.Kernel object")


def test_the_file_loads_by_its_path_alone(text, tmp_path):
    path = tmp_path / "attention.py"
    path.write_text(text)
    found = importlib.util.spec_from_file_location("a_name_that_nobody_registered", path)

    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)

    assert module.attention.kernel.description == module.DESCRIPTION


def test_the_file_says_what_it_is_and_how_it_is_made_again(text):
    head = text[: text.index("# ---- evoflash/runtime/")]

    head = " ".join(head.replace("\n#", " ").split())
    assert "Attention for CuPy: the kernel flash_wgmma_" in head
    assert "attention of bf16, head_dim 128, causal, aligned at the bottom right, 4 query heads" in head
    assert "runs on sm_90a; made for h200" in head
    assert "verified not by this database: check it before you trust it" in head
    assert "timing none in this database" in head
    assert "licence Apache-2.0" in head
    assert "--gpu h200 --kind cupy -o attention.py" in head
    assert "block_n=" in head


def test_names_of_the_joined_modules_are_apart():
    with pytest.raises(TemplateError, match=r"both define Kernel"):
        one_file._check_names({"launch": "class Kernel: ...", "other": "Kernel = 1"})

    assert "from ." not in one_file.runtime_source("array_attention")
