"""The launcher on kernels of the linear layer: what the driver is asked for, and which calls are refused."""

import numpy as np
import pytest
from exported_cases import LINEAR_CASES, exported
from recording import number, sizes_of
from tables import table_of_cases

from evoflash.exports.launch_json import artefact
from evoflash.kernels.family import load_family
from evoflash.operation import operation_of
from evoflash.runtime.launch import Kernel, Refused

WORKSPACE, STREAM = 0x7F00_0900_0000, 0xABC0


def planned(name, recorder, *, apart=0):
    """A plan, its workload, and the strides by tensor; `apart`: elements behind each row."""
    case = exported(name)
    workload, made = case.problem.workloads[0], artefact(case)
    recorder.expects(sizes_of(next(iter(made.description["images"].values()))))
    specs = {spec.name: spec for spec in operation_of(workload).tensors(workload) if spec.name != "B"}
    strides = {each: (spec.strides[0] + apart,) for each, spec in specs.items()}
    in_order = [strides[each] for each in ("X", "W", "SW", "R", "Y") if each in strides]
    kernel = Kernel(made.description, made.images, driver=recorder.path)
    return kernel.plan(workload.extents, in_order, device=0), workload, strides


@pytest.mark.parametrize("apart", [0, 32])
@pytest.mark.parametrize("name", LINEAR_CASES)
def test_the_driver_is_asked_for_what_evoflash_asks_it_for(name, apart, recorder):
    plan, workload, strides = planned(name, recorder, apart=apart)
    case = exported(name)
    launches = load_family(case.genome.family).launches(case.genome, workload, case.gpu)
    names = [spec.name for spec in operation_of(workload).tensors(workload)]
    addresses = {each: 0x7F00_0000_1000 * (at + 1) for at, each in enumerate(names)}
    workspace = WORKSPACE if launches[0].workspace_bytes else 0
    recorder.library.recording_clear()

    tensors = tuple(addresses.get(each, 0) for each in ("X", "W", "SW", "R", "Y"))
    plan.launch(tensors, addresses.get("B", 0), workspace, STREAM)

    wanted = operation_of(workload).arguments(workload, addresses, strides, workspace=workspace)
    for asked, launch in zip(recorder.launches(), launches, strict=True):
        maps, plain = asked.arguments[: len(launch.maps)], asked.arguments[len(launch.maps) :]
        assert plain == tuple(value.tobytes() for value in map(np.asarray, wanted))
        assert number(plain[0]) == addresses["X"]
        # The recorder's maps begin with the tensor's address.
        assert [number(each[:8]) for each in maps] == [addresses[each.of] for each in launch.maps]
        assert " ".join(map(str, launch.grid)) in asked.what.replace(",", " ")
        assert (plan.workspace_bytes, plan.zeroed_bytes) == (launch.workspace_bytes, launch.zeroed_bytes)


@table_of_cases()
def test_a_call_that_no_kernel_was_compiled_for_is_refused(shape, strides, complaint, recorder):
    made = artefact(exported("rows of W"))
    kernel = Kernel(made.description, made.images, driver=recorder.path)

    with pytest.raises(Refused, match=complaint) as refused:
        kernel.plan(shape, strides, device=0)
    assert "\n" not in str(refused.value)


@table_of_cases()
def test_an_address_that_no_kernel_takes_is_refused(changes, recorder):
    plan, _, _ = planned("rows of W and a workspace", recorder)
    usual = {"x": 0x1000, "w": 0x2000, "w_scale": 0, "residual": 0x3000, "y": 0x4000, "bias": 0x5000}

    *tensors, bias, workspace = {**usual, "workspace": 0x6000, **changes}.values()

    with pytest.raises(Refused):
        plan.launch(tuple(tensors), bias, workspace, 0)
