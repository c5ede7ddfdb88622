"""How a portfolio's dispatcher tells shapes of the linear layer apart. Chooses no kernel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evoflash.operation import DispatchForm
from evoflash.operations.linear.workload import BLOCK, LinearWorkload
from evoflash.runtime.dispatch import Dispatcher

_STEP = 16  # k is a multiple of it
_MOST_COLUMNS = 3 * BLOCK


def ask(dispatcher: Dispatcher, key: tuple[Any, ...], w: LinearWorkload) -> int:
    return dispatcher.find(key, (w.m, w.n, w.k))


def between(first: LinearWorkload, second: LinearWorkload, part: float) -> LinearWorkload:
    """The shape at that part of the way, in octaves."""
    m, n, k = (float(a ** (1 - part) * b**part) for a, b in zip(first.extents, second.extents, strict=True))
    return replace(first, m=max(1, round(m)), n=max(1, round(n)), k=_STEP * max(1, round(k / _STEP)))


def part(w: LinearWorkload) -> LinearWorkload:
    """Few columns of y, with the same last block of W."""
    return w if w.n <= _MOST_COLUMNS else replace(w, n=2 * BLOCK + w.n % BLOCK)


def folder(key: Mapping[str, Any]) -> str:
    added = "".join(f"-{name}" for name in ("bias", "residual") if key[name])
    return f"{key['weights']}-m{key['rows']}{added}"


def columns(w: LinearWorkload) -> dict[str, str]:
    return {"m": str(w.m), "n": str(w.n), "k": str(w.k), "W": w.weights}


PORTFOLIO = DispatchForm(
    names=("weights", "rows", "bias", "residual"),
    sizes=lambda workload: (workload.m, workload.n, workload.k),
    ask=ask,
    between=between,
    served=lambda workload: workload,
    part=part,
    why_not=lambda workload: "",
    folder=folder,
    columns=columns,
    libraries=("cublaslt", "flashinfer_block"),
    library=("torch.nn.functional.linear", "library"),
)
