"""An exchange with a language model as records: what was asked, what came back, what each edit was worth.

Asks nobody and judges no edit. The same records are stored, replayed and reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MODEL_EDIT = "language_model"  # the operator of a proposal that the model made
# The operator of its control: as many genes of the same parent as the model changed genes, or places of the
# text, each at another value by chance.
RANDOM_EDIT = "random_edit"
VALID = "valid"
ANSWERED = "answered"  # the status of an exchange with an answer; any other one says why there is none
ENDED = "the search ended first"


@dataclass(frozen=True, slots=True)
class JudgedEdit:
    """One proposed change of a kernel. `verdict` is VALID or the kind of mistake, which is counted.

    Of an edit of a kernel's text the child alone says what it is; what is invalid stands in the answer.
    """

    parent: str  # genome id; empty where the answer named no kernel that it was shown
    genes: Mapping[str, Any]  # as the answer has them; of an edit of a text none
    verdict: str
    detail: str = ""  # which gene, value or check
    child: str = ""  # genome id; empty unless valid


@dataclass(frozen=True, slots=True)
class KernelOrigin:
    """Where a kernel that a language model proposed is from."""

    llm: str  # the model, its preset, and +source where it edited a text; or the run that was repeated
    run: int
    request: int  # of the run, from 1 on

    @property
    def in_words(self) -> str:
        """As a sentence goes on after "proposed by"."""
        return f"the language model {self.llm}, request {self.request} of run {self.run}"


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
    edits: tuple[JudgedEdit, ...] = field(default=())
