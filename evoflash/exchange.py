"""An exchange with a language model as records: what was asked, what came back, what each edit was worth.

Asks nobody and judges no edit. The same records are stored, replayed and reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MODEL_EDIT = "language_model"  # the operator of a proposal that the model made
RANDOM_EDIT = "random_edit"  # the operator of its control: a random edit of the same size of the same parent
VALID = "valid"
ANSWERED = "answered"  # the status of an exchange with an answer; any other one says why there is none
ENDED = "the search ended first"


@dataclass(frozen=True, slots=True)
class GeneEdit:
    """One proposed change of a kernel. `verdict` is VALID or the kind of mistake, which is counted."""

    parent: str  # genome id; empty where the answer named no kernel that it was shown
    genes: Mapping[str, Any]  # as the answer has them
    verdict: str
    detail: str = ""  # which gene, value or check
    child: str = ""  # genome id; empty unless valid


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer. Places are counted in proposals that the search had asked for by then."""

    model: str
    asked_at: int
    taken_at: int
    status: str
    request: Mapping[str, Any]  # the body as it was sent: without headers, address and key
    shown: tuple[str, ...]  # genome ids of the kernels in the request, in the order of their labels
    answer: str  # the model's text; the beginning of what came where that was none
    seconds: float  # until the answer, while the search went on
    waited_s: float = 0.0  # of the search itself, for writing the request and judging the answer
    edits: tuple[GeneEdit, ...] = field(default=())
