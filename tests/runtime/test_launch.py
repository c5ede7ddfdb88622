"""The launcher asks the driver for what evoflash asks it for: arguments, grid, attributes, tensor maps."""

import subprocess
import sys
import threading
from dataclasses import replace
from functools import cache

import pytest
from exported_cases import CASES, exported
from places import ROOT
from recording import number, sent_by_evoflash, sizes_of
from tables import data

from evoflash.exports.launch_json import artefact
from evoflash.kernels.family import load_family
from evoflash.operations.attention.forms import dense
from evoflash.runtime.launch import Kernel, LaunchError, Refused

POINTERS = (0x7F00_0000_1000, 0x7F00_0100_0010, 0x7F00_0200_0020, 0x7F00_0300_0030, 0x7F00_0400_0004)
WORKSPACE, STREAM = 0x7F00_0500_0100, 0xABC0
ELF = b"\x7fELF of a test"


@cache
def made(name):
    return artefact(exported(name))


def kernel_of(made, recorder, **changes):
    described = {**made.description, **changes}
    return Kernel(described, made.images, driver=recorder.path)


def changed(made, **changes):
    """The artefact with changes to its first launch."""
    ((arch, image),) = made.description["images"].items()
    launches = [{**image["launches"][0], **changes}, *image["launches"][1:]]
    described = {**made.description, "images": {arch: {**image, "launches": launches}}}
    return replace(made, description=described)


def strides_of(workload, *, is_bshd):
    if not is_bshd:
        return dense.dense_strides(workload)
    w, d = workload, workload.head_dim
    query, key = (w.seq_q * w.heads * d, d, w.heads * d), (w.seq_kv * w.kv_heads * d, d, w.kv_heads * d)
    return query, key, key, query


def shape_of(w):
    return w.batch, w.heads, w.kv_heads, w.seq_q, w.seq_kv


def planned(name, recorder, *, is_bshd=False):
    workload = exported(name).problem.workloads[0]
    recorder.expects(sizes_of(next(iter(made(name).description["images"].values()))))
    return kernel_of(made(name), recorder).plan(
        shape_of(workload), strides_of(workload, is_bshd=is_bshd), device=0
    )


@pytest.mark.parametrize("is_bshd", [False, True], ids=["bhsd", "bshd"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sample(5)
def test_the_driver_is_asked_for_what_evoflash_asks_it_for(name, is_bshd, recorder, monkeypatch):
    case = exported(name)
    workload = case.problem.workloads[0]
    launches = load_family(case.genome.family).launches(case.genome, workload, case.gpu)
    plan = planned(name, recorder, is_bshd=is_bshd)
    workspace = WORKSPACE if launches[0].workspace_bytes else 0
    recorder.library.recording_clear()

    plan.launch(*POINTERS, workspace, STREAM)

    asked = recorder.launches()
    assert asked == sent_by_evoflash(
        recorder,
        monkeypatch,
        launches,
        workload,
        POINTERS,
        strides=strides_of(workload, is_bshd=is_bshd),
        workspace=workspace,
        stream=STREAM,
    )
    assert (plan.workspace_bytes, plan.zeroed_bytes) == (
        launches[0].workspace_bytes,
        launches[0].zeroed_bytes,
    )
    assert len(asked) == len(launches)


@pytest.mark.parametrize("attribute", ["resident", "dependent"])
def test_blocks_that_wait_and_launches_that_overlap_are_asked_for_alike(attribute, recorder, monkeypatch):
    case, described = exported("plain"), changed(made("plain"), **{attribute: True})
    workload = case.problem.workloads[0]
    (launch,) = load_family(case.genome.family).launches(case.genome, workload, case.gpu)
    recorder.expects(sizes_of(next(iter(described.description["images"].values()))))
    plan = kernel_of(described, recorder).plan(shape_of(workload), dense.dense_strides(workload), device=0)
    recorder.library.recording_clear()

    plan.launch(*POINTERS, 0, STREAM)

    (asked,) = recorder.launches()
    assert len(asked.attributes) == 1
    (same,) = sent_by_evoflash(
        recorder,
        monkeypatch,
        [replace(launch, **{attribute: True})],
        workload,
        POINTERS,
        strides=dense.dense_strides(workload),
        workspace=0,
        stream=STREAM,
    )
    assert asked == same


def test_functions_are_allowed_their_shared_memory_and_clusters_once(recorder):
    plan = planned("cluster", recorder)

    assert recorder.text().count("load in") == 1
    assert f"set flash_cluster 8 {plan.steps[0].shared_bytes}" in recorder.text()
    assert "set flash_cluster 9 100" in recorder.text()
    assert "set flash_cluster 14" not in recorder.text()  # a cluster of two is portable


def test_a_cluster_beyond_the_portable_size_is_allowed_for(recorder):
    large = changed(made("cluster"), cluster=[16, 1, 1])
    recorder.expects([])

    kernel_of(large, recorder).plan((2, 8, 8, 256, 256), abi_strides(2, 8, 256, 64), device=0)

    assert "set flash_cluster 14 1" in recorder.text()


def abi_strides(batch, heads, rows, columns):
    return [(heads * rows * columns, rows * columns, columns)] * 4


def test_launches_of_many_threads_keep_their_pointers_apart(recorder):
    plan = planned("tensor maps", recorder)
    recorder.library.recording_slow(200)
    recorder.library.recording_clear()

    def many(index):
        for turn in range(20):
            base = (1 + index * 64 + turn) << 32
            plan.launch(base + 16, base + 32, base + 48, base + 64, base + 80, 0, 1 + index)

    threads = [threading.Thread(target=many, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    seen = recorder.launches()
    assert len(seen) == 160
    for launched in seen:
        # The first four are tensor maps, whose first word is the tensor's address.
        places = [int.from_bytes(launched.arguments[at][:8], "little") for at in range(4)]
        pointers = [number(argument) for argument in launched.arguments[4:9]]
        assert places == pointers[:4]
        base = pointers[0] - 16
        assert pointers == [base + 16, base + 32, base + 48, base + 64, base + 80]
        assert launched.what.endswith(f"stream {hex(1 + ((base >> 32) - 1) // 64)}")


def test_plans_of_many_threads_load_the_module_once(recorder):
    kernel, w = kernel_of(made("plain"), recorder), exported("plain").problem.workloads[0]
    found = []
    threads = [
        threading.Thread(
            target=lambda: found.append(kernel.plan(shape_of(w), dense.dense_strides(w), device=0))
        )
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(plan) for plan in found}) == 1
    assert recorder.text().count("load in") == 1


def test_each_device_has_a_module_of_its_own(recorder):
    recorder.machine(devices=2)
    kernel, w = kernel_of(made("plain"), recorder), exported("plain").problem.workloads[0]

    plans = [kernel.plan(shape_of(w), dense.dense_strides(w), device=device) for device in (0, 1)]

    assert plans[0] is not plans[1]
    assert recorder.text().count("load in") == 2


def test_tensor_maps_follow_the_addresses_and_are_bounded(recorder):
    plan = planned("tensor maps", recorder)
    recorder.library.recording_clear()

    for turn in range(700):
        plan.launch(*(pointer + 256 * turn for pointer in POINTERS), 0, STREAM)

    last = recorder.launches()[-1]
    assert int.from_bytes(last.arguments[0][:8], "little") == POINTERS[0] + 256 * 699
    assert max(len(known) for _, _, known in plan._maps) <= 512


def test_the_launcher_needs_the_standard_library_alone():
    script = (
        "import sys, types; "
        f"package = types.ModuleType('runtime'); package.__path__ = [{str(ROOT / 'evoflash/runtime')!r}]; "
        "sys.modules['runtime'] = package; import runtime.launch; "
        "print(sorted(name for name in sys.modules if name.partition('.')[0] not in sys.stdlib_module_names))"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )

    loaded = set(eval(done.stdout)) - {"__main__"}
    assert {name.partition(".")[0] for name in loaded} == {"runtime"}


# ---- what is refused

DENSE = abi_strides(2, 4, 100, 64)


def strides(**changes):
    return [changes.get(name, stride) for name, stride in zip("qkvo", DENSE, strict=True)]


BAD_PLANS = {
    "too few sizes": ((2, 4, 4, 100), DENSE, "give batch, heads, kv_heads, seq_q, seq_kv"),
    "no batch": ((0, 4, 2, 100, 100), DENSE, "whole numbers from 1 up"),
    "a negative length": ((2, 4, 2, -1, 100), DENSE, "whole numbers from 1 up"),
    "no numbers": ((2, 4, 2, "100", 100), DENSE, "whole numbers from 1 up"),
    "no whole numbers": ((2, 4, 2, 100.0, 100), DENSE, "whole numbers from 1 up"),
    "a size of 64 bits": ((2, 4, 2, 2**40, 100), DENSE, "whole numbers from 1 up"),
    "another ratio of heads": ((2, 4, 4, 100, 100), DENSE, "serves 2 query heads a key/value head"),
    "more rows than 32 bits count": ((2**16, 2**14, 2**13, 100, 100), DENSE, "split the batch"),
    "too many blocks": ((70_000, 4, 2, 100, 100), abi_strides(70_000, 4, 100, 64), "along z"),
    "three tensors": ((2, 4, 2, 100, 100), DENSE[:3], "give those of q, k, v and o"),
    "two strides": ((2, 4, 2, 100, 100), strides(k=(64, 64)), "k's strides"),
    "a negative stride": ((2, 4, 2, 100, 100), strides(v=(25_600, -6400, 64)), "v's strides"),
    "rows that overlap": ((2, 4, 2, 100, 100), strides(q=(25_600, 6400, 32)), "must not overlap"),
    "heads that overlap": ((2, 4, 2, 100, 100), strides(o=(25_600, 3200, 64)), "must not overlap"),
    "an expanded batch": ((2, 4, 2, 100, 100), strides(k=(0, 6400, 64)), "must not overlap"),
    "rows off the grid of 16 bytes": ((2, 4, 2, 100, 100), strides(q=(26_800, 6700, 67)), "multiples of 8"),
    "strides beyond 2^39": ((2, 4, 2, 100, 100), strides(q=(2**40, 6400, 64)), "below 2"),
    "no strides": ((2, 4, 2, 100, 100), None, "give tuples"),
}


@pytest.mark.parametrize("case", BAD_PLANS)
def test_a_shape_or_layout_that_was_not_verified_is_refused_in_one_line(case, recorder):
    shape, given, said = BAD_PLANS[case]

    with pytest.raises(Refused, match=said) as refused:
        kernel_of(made("plain"), recorder).plan(shape, given, device=0)

    assert "\n" not in str(refused.value)
    assert recorder.launches() == []


BAD_POINTERS = {
    "no q": ({0: 0}, "q has no memory"),
    "no o": ({3: 0}, "o has no memory"),
    "k off the grid of 16 bytes": ({1: 0x7F00_0000_0008}, "k begins at an address"),
    "lse off the grid of 4 bytes": ({4: 0x7F00_0000_0002}, "lse begins at an address"),
    "a workspace off the grid": ({5: 0x7F00_0000_0008}, "workspace begins at an address"),
    "no workspace": ({5: 0}, "needs a workspace of 1056768 bytes"),
}


@pytest.mark.parametrize("case", BAD_POINTERS)
def test_an_address_that_no_kernel_takes_is_refused_in_one_line(case, recorder):
    changes, said = BAD_POINTERS[case]
    plan = planned("workspace and two launches", recorder)
    given = [changes.get(index, address) for index, address in enumerate((*POINTERS, WORKSPACE))]

    with pytest.raises(Refused, match=said):
        plan.launch(*given, STREAM)

    assert recorder.launches() == []


def test_an_lse_that_is_not_wanted_is_null(recorder):
    plan = planned("plain", recorder)

    plan.launch(*POINTERS[:4], 0, 0, STREAM)

    assert number(recorder.launches()[-1].arguments[4]) == 0


BAD_MACHINES = data(__file__, "BAD_MACHINES", tuples=True)


@pytest.mark.parametrize("case", BAD_MACHINES)
def test_a_gpu_that_cannot_run_the_kernel_is_refused_in_one_line(case, recorder):
    machine, device, said = BAD_MACHINES[case]
    recorder.machine(**machine)
    given = changed(made("plain"), resident=True, shared_memory_bytes=2048)

    with pytest.raises(Refused, match=said):
        kernel_of(given, recorder).plan((2, 4, 2, 100, 200), strides_of_plain(), device=device)


def strides_of_plain():
    return dense.dense_strides(exported("plain").problem.workloads[0])


def test_a_library_that_is_no_driver_is_named():
    with pytest.raises(LaunchError, match=r"libnothing\.so cannot be loaded"):
        Kernel(made("plain").description, made("plain").images, driver="libnothing.so").plan(
            (2, 4, 2, 100, 200), strides_of_plain(), device=0
        )


def test_what_the_driver_refuses_is_named_as_the_driver_names_it(recorder):
    given = changed(made("plain"), entry="missing")

    with pytest.raises(LaunchError, match="cuModuleGetFunction: CUDA_ERROR_NOT_FOUND"):
        kernel_of(given, recorder).plan((2, 4, 2, 100, 200), strides_of_plain(), device=0)
