"""What must hold between outputs of changed inputs, as records: an operation makes them, the validator asks a
kernel. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # NumPy takes a tenth of a second to load: records alone do without it
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One side of a relation: the sum of some runs' outputs, at some rows in some order."""

    runs: tuple[Any, ...]  # test inputs
    rows: NDArray[np.intp] | None = None  # counted through all groups; None: all of them in order


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """Two sides that must agree but for rounding. `before` may be known: numbers by tensor name, (rows,
    columns).
    """

    change: str  # what was changed, in words
    before: Rows | Mapping[str, NDArray[np.float64]]
    after: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """Which rows a change of the inputs reaches: in no group a row before `first_row`, not by one bit; and
    each row from there on in at least one group.
    """

    mask: str  # what keeps the change from the rows before, in words
    change: str  # what the rows see of it, in words
    before: Any  # test inputs
    after: Any
    first_row: int
