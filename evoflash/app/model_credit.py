"""What a language model brought to a run, beside its control arm, in numbers and sentences. Asks no model."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from evoflash.app.insights import GroupStats, History, digest
from evoflash.evaluation import Basis, Run, Status
from evoflash.model_exchange import ANSWERED, MODEL_EDIT, RANDOM_EDIT, VALID
from evoflash.notices import count_of
from evoflash.store.exchanges import read_exchanges, requests
from evoflash.store.store import Store, best_in

CHANCE = 0.05  # a difference that random edits show so often by themselves is none


@dataclass(frozen=True, slots=True)
class ModelCredit:
    """Counts of requests, of the edits in their answers, and of what became of both arms' kernels."""

    name: str  # the model and its preset
    asked: int
    answered: int
    failures: Mapping[str, int]  # why there was no answer
    edits: int
    valid: int
    invalid: Mapping[str, int]  # by kind
    model: GroupStats | None  # kernels that the search evaluated; None: none
    control: GroupStats | None
    seconds: float  # from requests to answers, while the search went on
    waited_s: float  # of the search's own time
    chance: float | None  # that random edits gain as often as the model's did; None without both arms
    kernels: Mapping[str, int] = field(default_factory=dict)  # its own by id, each with its request's number
    not_compiled: int = 0  # of them
    is_timed: bool = True  # whether they are: without a GPU an edited text is checked alone
    winner_request: int | None = None  # that the fastest kernel is from; None: it is not the model's

    @property
    def says(self) -> tuple[str, ...]:
        return tuple(_sentences(self))


def credit(store: Store, run: Run, history: History) -> ModelCredit | None:
    """Of the run; None where no model was to be asked."""
    if not run.key.llm:
        return None
    exchanges = read_exchanges(store.database, run)
    verdicts = Counter(edit.verdict for each in exchanges for edit in each.edits)
    statuses = Counter(each.status for each in exchanges)
    arms = {each.name: each for each in digest(run, history, None).operators}
    numbers = requests(exchanges)
    ids = (each.genome.id for each, _ in history if each.operator == MODEL_EDIT)
    mine = {each: numbers[each] for each in ids if each in numbers}
    best, has_edits = best_in(history), any(each.genome.edits for each, _ in history)
    is_timed = not (has_edits and run.key.basis is Basis.ESTIMATED)
    model, control = arms.get(MODEL_EDIT), arms.get(RANDOM_EDIT)
    return ModelCredit(
        name=run.key.llm,
        asked=len(exchanges),
        answered=statuses.pop(ANSWERED, 0),
        failures=dict(statuses.most_common()),
        edits=verdicts.total(),
        valid=verdicts.pop(VALID, 0),
        invalid=dict(verdicts.most_common()),
        model=model,
        control=control,
        seconds=sum(each.seconds for each in exchanges),
        waited_s=sum(each.waited_s for each in exchanges),
        kernels=mine,
        not_compiled=sum(each.status is Status.COMPILE for _, each in history if each.genome.id in mine),
        winner_request=mine.get(best.genome.id) if best else None,
        is_timed=is_timed,
        chance=_chance(model, control) if model and control and is_timed else None,
    )


def _chance(model: GroupStats, control: GroupStats) -> float:
    """By Fisher's exact test: as many gains or more for the model, if both arms gained alike."""
    gains, uses = model.faster + control.faster, model.uses + control.uses
    more = range(model.faster, min(gains, model.uses) + 1)
    ways = (math.comb(gains, k) * math.comb(uses - gains, model.uses - k) for k in more)
    return sum(ways) / math.comb(uses, model.uses)


def _sentences(found: ModelCredit) -> Iterator[str]:
    yield (
        f"language model {found.name}: {count_of(found.asked, 'request')}, {found.answered} answered in "
        f"{found.seconds:.1f} s beside the search, which spent {found.waited_s:.2f} s on them"
        f"{_of(found.failures)}."
    )
    if found.edits:
        invalid = found.edits - found.valid
        yield f"{count_of(found.edits, 'edit')}, {found.valid} valid, {invalid} not{_of(found.invalid)}."
    if found.model is None:
        yield "None of its edits was evaluated."
        return
    broken = f", {found.not_compiled} of them not compiled" if found.not_compiled else ""
    own = f"Edits of the model: {_arm(found.model)}{broken}"
    yield f"{own}; random ones of genes, of the same sizes: {_arm(found.control)}."
    if not found.is_timed:
        yield "Its kernels were checked and not timed, so that nothing is known of what they gain."
    if found.winner_request is not None:
        yield f"The fastest kernel is the model's, of request {found.winner_request}."
    if found.chance is None or found.model.uses == 0:
        return
    if found.chance < CHANCE:
        yield f"The model's gained more often than random ones (p = {found.chance:.3f})."
    else:
        yield f"That does not tell the model from random edits (p = {found.chance:.2f})."


def _of(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{count} {what}' for what, count in counts.items())})" if counts else ""


def _arm(arm: GroupStats | None) -> str:
    if arm is None:
        return "none evaluated"
    return f"{arm.uses} evaluated, {arm.correct} correct, {arm.faster} faster than the parent"
