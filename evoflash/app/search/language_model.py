"""Puts a language model beside a search's strategy, live or as an earlier run had it. Sends nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from evoflash.errors import UsageError, did_you_mean
from evoflash.evaluation import Run
from evoflash.exchange import ENDED
from evoflash.llm.correspondence import Correspondence
from evoflash.llm.endpoint import Endpoint, endpoint
from evoflash.llm.operator import WithLanguageModel, trials
from evoflash.llm.prompt import PRESETS, KernelTask
from evoflash.notices import say
from evoflash.search import Strategy
from evoflash.store import run_edits
from evoflash.store.exchanges import keep_exchange, read_exchanges
from evoflash.store.store import Store

if TYPE_CHECKING:
    from evoflash.app.search.plan import SearchPlan

USUAL_PRESET = "full"
_OF_THE_GPU = (
    *("name", "arch", "sm_count", "clock_mhz", "smem_per_block", "smem_per_sm", "regs_per_sm"),
    *("threads_per_sm", "l2_bytes", "dram_gbps"),
)


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """What was asked for: a model at an address, or the run whose exchanges are repeated."""

    model: str = ""
    url: str = field(default="", repr=False)
    key_variable: str | None = None
    preset: str = USUAL_PRESET
    replay: str = ""

    @property
    def name(self) -> str:
        """In a run's key."""
        return f"replay:{self.replay}" if self.replay else f"{self.model}:{self.preset}"

    def endpoint(self) -> Endpoint:
        """With the key as the environment has it now."""
        return endpoint(self.model, self.url, self.key_variable)


def language_model(
    model: str | None, url: str | None, key_variable: str | None, preset: str | None, replay: str | None
) -> LanguageModel | None:
    """Options -> what is asked for, checked; None without a model. UsageError for what does not fit."""
    given = {"--llm": model, "--llm-url": url, "--llm-key-env": key_variable, "--llm-prompt": preset}
    names = [name for name, value in given.items() if value is not None]
    if replay is not None:
        if names:
            raise UsageError(f"--llm-replay asks no model: leave {' and '.join(names)} out.")
        return LanguageModel(replay=replay)
    if not names:
        return None
    if model is None or url is None:
        raise UsageError("--llm MODEL and --llm-url URL go together: give both.")
    if preset is not None and preset not in PRESETS:
        hint = did_you_mean(preset, PRESETS)
        raise UsageError(f"--llm-prompt {preset} is none.{hint} Use {' or '.join(PRESETS)}.")
    asked = LanguageModel(model, url, key_variable, preset or USUAL_PRESET)
    asked.endpoint()
    return asked


def trials_of(plan: "SearchPlan", store: Store, budget: int | None) -> int:
    """What the model of a run that begins now may take without earning it; as the repeated run had it."""
    if plan.llm is None:
        return 0
    return _run_to_repeat(plan, store).start.llm_trials if plan.llm.replay else trials(budget)


def _run_to_repeat(plan: "SearchPlan", store: Store) -> Run:
    """The run that is repeated. UsageError where it is of another search, or had no model."""
    assert plan.llm is not None
    run = run_edits.find(store.database, plan.llm.replay)
    if not run.key.llm or run.key.llm.startswith("replay:"):
        raise UsageError(f"run {run.id} asked no language model: --llm-replay wants one that did.")
    if replace(run.key, llm="") != replace(plan.key, llm=""):
        raise UsageError(
            f"run {run.id} is {run.key.search_name} with seed {run.key.seed} for '{run.key.problem}' on "
            f"{run.key.gpu}: give the options of that search."
        )
    return run


@contextmanager
def beside(strategy: Strategy, plan: "SearchPlan", store: Store, current: Run) -> Iterator[Strategy]:
    """Inside, the strategy with the plan's model beside it, if it has one."""
    if plan.llm is None:
        yield strategy
        return
    own = [each for each in read_exchanges(store.database, current) if each.status != ENDED]
    keep = partial(keep_exchange, store.database, current)
    if plan.llm.replay:
        earlier = read_exchanges(store.database, _run_to_repeat(plan, store))
        letters = Correspondence(None, earlier=earlier, kept=len(own), keep=keep)
        say(f"repeating what the language model of run {plan.llm.replay} answered; none is asked.")
    else:
        letters = Correspondence(plan.llm.endpoint(), earlier=own, kept=len(own), keep=keep)
        say(f"the language model {plan.llm.model} may propose edits; its control arm beside it.")
    wrapped = WithLanguageModel(
        strategy,
        {each.space.family: each for each in _tasks(plan)},
        letters,
        model=plan.llm.model,
        preset=plan.llm.preset,
        seed=plan.seed,
        trials=current.start.llm_trials,
        told_before=len(store.history(current)),
    )
    try:
        yield wrapped
    finally:
        wrapped.close()


def _tasks(plan: "SearchPlan") -> Iterator[KernelTask]:
    from evoflash.app.search.limits import floor_us

    gpu = {name: getattr(plan.gpu, name) for name in _OF_THE_GPU}
    floor = floor_us(plan.problem, plan.gpu)
    for each in plan.fields:
        family = each.family
        conditions = {name: str(expression.text) for name, expression in family.when.items()}
        rules = {name: str(expression.text) for name, expression in family.check.items()}
        yield KernelTask(str(plan.problem), gpu, floor, family.summary, each.space, conditions, rules)
