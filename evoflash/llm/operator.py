"""A language model beside any strategy: its edits are proposed, and random ones of genes as a control.

It edits genes, or the text of a kernel where its task has one.

Measures and stores nothing. It starts with a small share of the proposals, whatever they bring. Each of its
children that is faster than its parent then earns it as many more as the strategy needs for such a gain, by
the credit that mutation operators have. What it does depends on the search's outcomes and on where answers
came in, which is kept with them: a replay proposes the same.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evoflash.evaluation import Evaluation, Proposal, faster
from evoflash.llm.answers import edits_of, gene_edit, source_edit
from evoflash.llm.correspondence import Correspondence
from evoflash.llm.prompt import KernelTask, label, letter
from evoflash.model_exchange import ANSWERED, MODEL_EDIT, RANDOM_EDIT, Exchange
from evoflash.search import Strategy
from evoflash.space import Genome, SearchSpace
from evoflash.strategies.operators import SLOWER, Credit, Trait, reward

SHARE = 0.05  # of all proposals that the model and its control may take before it has earned any
EARLY = 0.2  # of the proposals so far, until the share of the whole budget is used up
_PAIR = 2  # a proposal of the model's and its control
OPENING = 8  # outcomes before the first request: it would have nothing to show
REFRESHED = 20  # outcomes after which a new best kernel is worth a new request
_DRAWS = 64  # of a control until one is new and valid
_STRATEGY = "strategy"  # all other proposals, in the credit


def trials(budget: int | None) -> int:
    """Proposals that the model and its control may take of a budget without earning them."""
    return int(SHARE * (budget or 0))


@dataclass(frozen=True, slots=True)
class _ValidEdit:
    parent: Genome
    child: Genome
    size: int  # genes that the edit names, or places of the text


class WithLanguageModel:
    """Asks the strategy within; at times an edit of the model's and a random one take its place."""

    def __init__(
        self,
        within: Strategy,
        tasks: Mapping[str, KernelTask],
        correspondence: Correspondence,
        *,
        model: str,
        preset: str,
        seed: int,
        trials: int,
        told_before: int = 0,
    ) -> None:
        """`tasks` by family. `told_before`: so many outcomes are of earlier commands, which asked then."""
        self._within, self._tasks, self._letters = within, tasks, correspondence
        self._model, self._preset, self._seed, self._trials = model, preset, seed, trials
        self._told_before = told_before
        self._told: dict[str, list[Evaluation]] = {family: [] for family in tasks}
        self._count = self._asked = self._taken = 0  # outcomes; proposals; those of them that were a pair's
        self._best: Evaluation | None = None
        self._asked_about = ("", 0)  # the best kernel and the outcomes there were at the newest request
        self._known: dict[str, Genome] = {}  # all that was proposed, by id
        self._scores_us: dict[str, float] = {}
        self._edits: deque[_ValidEdit] = deque()  # those that wait for their turn
        self._control: _ValidEdit | None = None  # the one whose random counterpart is due
        self._credit = Credit({MODEL_EDIT: Trait(), RANDOM_EDIT: Trait(), _STRATEGY: Trait()})
        self._writing_s = 0.0  # that the request under way took
        self._earned = 0.0  # rewards of the model's children that were faster than their parents

    def ask(self) -> Proposal | None:
        """An edit, its control, or what the strategy within asks for."""
        self._correspond()
        proposal = self._random_edit() or self._model_edit()
        if proposal is None:
            proposal = self._within.ask()
            while proposal is not None and proposal.genome.id in self._known:
                proposal = self._within.ask()  # an edit, whose outcome the strategy was not told yet
        if proposal is not None:
            self._asked += 1
            self._known[proposal.genome.id] = proposal.genome
        return proposal

    def tell(self, proposal: Proposal, evaluation: Evaluation) -> None:
        """Learn what the proposal earned, and tell the strategy within."""
        genome = proposal.genome
        self._known[genome.id] = genome
        self._count += 1
        parents = [self._scores_us[each] for each in proposal.parents if each in self._scores_us]
        if evaluation.is_rankable and evaluation.score_us is not None:
            self._scores_us[genome.id] = evaluation.score_us
        if parents:
            earned = reward(evaluation, min(parents))
            mine = proposal.operator in (MODEL_EDIT, RANDOM_EDIT)
            self._credit.learn(genome.family, "", proposal.operator if mine else _STRATEGY, earned)
            self._earned += earned if proposal.operator == MODEL_EDIT and earned > SLOWER else 0.0
        if genome.family in self._tasks and self._tasks[genome.family].space.has_point(genome.root):
            self._told[genome.family].append(evaluation)
            self._best = faster(self._best, evaluation)
        if not genome.edits:  # which is no point of the strategy's space
            self._within.tell(proposal, evaluation)

    def close(self) -> None:
        self._letters.close(position=self._asked, waited_s=self._writing_s)

    # ---- proposals

    def _model_edit(self) -> Proposal | None:
        while self._edits and self._has_room():
            edit = self._edits.popleft()
            if edit.child.id not in self._known:
                self._control = edit
                self._taken += 1
                return Proposal(edit.child, MODEL_EDIT, (edit.parent.id,))
        return None

    def _has_room(self) -> bool:
        """Whether another pair is within what the model may take."""
        free = max(min(self._trials, EARLY * self._asked), SHARE * self._asked)
        return self._taken + _PAIR <= free + self._earned / self._price()

    def _price(self) -> float:
        """What a proposal of the strategy within is expected to earn."""
        family = self._best.genome.family if self._best is not None else ""
        return max(self._credit.expected_reward(family, "", _STRATEGY), SLOWER)

    def _random_edit(self) -> Proposal | None:
        """As many genes of the same parent as the model's edit changed, at random; None where none is due."""
        edit, self._control = self._control, None
        if edit is None:
            return None
        space = self._tasks[edit.parent.family].space
        rng = np.random.default_rng([self._seed, self._asked, 2])
        for _ in range(_DRAWS):
            drawn = random_edit(edit.parent.root, space, rng, size=edit.size)
            if drawn is not None and drawn.id not in self._known:
                self._taken += 1
                return Proposal(drawn, RANDOM_EDIT, (edit.parent.id,))
        return None

    # ---- letters

    def _correspond(self) -> None:
        """Take what has come back, and ask ahead of the next pair."""
        begun = time.monotonic()
        for exchange in self._letters.take_arrivals(self._asked):
            judged = self._judge(exchange)
            waited_s, self._writing_s = self._writing_s + time.monotonic() - begun, 0.0
            self._letters.note(replace(judged, waited_s=waited_s))
            begun = time.monotonic()
        if self._is_time_to_ask():
            assert self._best is not None
            family = self._best.genome.family
            written = letter(
                self._tasks[family],
                self._told[family],
                model=self._model,
                preset=self._preset,
                seed=self._letters.seed,
                is_plain=self._letters.is_plain,
            )
            self._asked_about = (self._best.genome.id, self._count)
            self._letters.ask(written, asked_at=self._asked)
            self._writing_s += time.monotonic() - begun

    def _is_time_to_ask(self) -> bool:
        best = self._best
        if best is None or self._count < max(OPENING, self._told_before):
            return False
        about, count = self._asked_about
        is_stale = best.genome.id != about and self._count >= count + REFRESHED
        return (not self._edits or is_stale) and self._letters.can_ask

    def _judge(self, exchange: Exchange) -> Exchange:
        """With its edits; valid ones wait for their turn, before those of earlier answers."""
        genomes = [self._known[each] for each in exchange.shown if each in self._known]
        if exchange.status != ANSWERED or len(genomes) < len(exchange.shown) or not genomes:
            return exchange
        shown = {label(at): genome for at, genome in enumerate(genomes)}
        task = self._tasks[genomes[0].family]
        if task.source is None:
            judge = partial(gene_edit, shown=shown, space=task.space)
        else:
            judge = partial(source_edit, shown=shown, source=task.source)
        found = edits_of(exchange.answer, judge, lambda genome: genome.id in self._known)
        valid = ((edit, self._known[edit.parent], child) for edit, child in found if child is not None)
        new = [
            _ValidEdit(parent, child, len(edit.genes) or len(child.edits) - len(parent.edits))
            for edit, parent, child in valid
        ]
        self._edits.extendleft(reversed(new))
        return replace(exchange, edits=tuple(edit for edit, _ in found))


def random_edit(parent: Genome, space: SearchSpace, rng: np.random.Generator, *, size: int) -> Genome | None:
    """The parent with so many of its genes at other values; None where that is not valid or the same."""
    own = parent.as_dict()
    free = [space.param(name) for name in own if len(space.param(name).values) > 1]
    chosen = rng.permutation(len(free))[:size]
    changes = {}
    for param in (free[int(at)] for at in chosen):
        others = [value for value in param.values if value != own[param.name]]
        changes[param.name] = others[int(rng.integers(len(others)))]
    child = space.genome({**own, **changes})
    return child if child != parent and space.is_valid(child) else None
