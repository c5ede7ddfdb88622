"""A report about a line of a function that a kernel calls says where it was called from."""

import numpy as np
import pytest

from evoflash.commands.check.findings import from_report
from evoflash.compilers.gxx import build
from evoflash.emulator.launch import Emulation, Memory, run
from evoflash.evaluation import Launch

# Which of three tensors is read too far; `inner` is called by `row`, which the kernel calls.
SOURCE = """#include "ef.h"
EF_DEV float inner(const float* x, int i) {
  return ef::ldg(x + i);
}
EF_DEV float row(const float* x, int i) {
  const float first = inner(x, i);
  return first + 1.0f;
}
extern "C" __global__ void k(const float* x, float* y, int far) {
  const int i = threadIdx.x;
  float sum = row(x, i);
  sum += row(x, far == 1 ? i + 9000 : i);
  sum += row(x, far == 2 ? i + 9000 : i);
  ef::stg(y + i, sum);
  if (far == 3) ef::stg(y + i + 9000, sum);
}
EF_EXPORT_KERNEL(k)
"""


def ran(far: int) -> Emulation:
    with Memory() as memory:
        x = memory.array("x", (32,), np.float32)
        y = memory.array("y", (32,), np.float32, writable=True)
        arguments = (np.uint64(x.ctypes.data), np.uint64(y.ctypes.data), np.int32(far))
        return run(build(SOURCE, name="callers"), Launch("k", (1, 1, 1), (32, 1, 1), 0), arguments)


@pytest.mark.parametrize(("far", "line", "callers"), [(1, 3, (6, 12)), (2, 3, (6, 13)), (3, 15, ())])
def test_a_report_names_the_calls_that_led_to_its_line(far: int, line: int, callers: tuple[int, ...]) -> None:
    (report,) = ran(far).reports

    assert (report.kind, report.line, report.callers) == ("OOB-global", line, callers)
    assert report.message.startswith(
        "block (0,0,0)" + "".join(f", called from line {each}" for each in callers) + ": "
    )


def test_a_finding_shows_the_calls_as_places_of_its_own() -> None:
    (report,) = ran(2).reports
    finding = from_report(report, run="the first", shift=100)

    assert finding.line == 103
    assert finding.where == "block (0,0,0), called from line 106, called from line 113"
    assert [(place.line, place.label) for place in finding.places] == [
        (106, "called from here"),
        (113, "called from here"),
    ]
