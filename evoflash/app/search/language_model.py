"""Puts a language model beside a search's strategy, live or as an earlier run had it. Sends nothing."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from evoflash.app.search.edited_sources import kernel_source
from evoflash.app.search.limits import floor_us
from evoflash.errors import UsageError, did_you_mean
from evoflash.evaluation import EDITS_SOURCE, Basis, Run, RunKey
from evoflash.kernels.family import Family
from evoflash.llm.correspondence import Correspondence
from evoflash.llm.endpoint import Endpoint, endpoint
from evoflash.llm.operator import WithLanguageModel, trials
from evoflash.llm.prompt import PRESETS, KernelTask
from evoflash.model_exchange import ENDED
from evoflash.notices import say
from evoflash.problem import Problem
from evoflash.search import Strategy
from evoflash.space import SearchSpace
from evoflash.specs import GpuSpec
from evoflash.store import run_edits
from evoflash.store.exchanges import keep_exchange, read_exchanges
from evoflash.store.store import Store

USUAL_PRESET = "full"
_WHAT = {False: "edits", True: "edits of a kernel's source"}
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
    edits_source: bool = False  # the text of a rendered kernel, in place of genes

    @property
    def name(self) -> str:
        """In a run's key."""
        own = f"{self.model}:{self.preset}{EDITS_SOURCE * self.edits_source}"
        return f"replay:{self.replay}" if self.replay else own

    def endpoint(self) -> Endpoint:
        """With the key as the environment has it now."""
        return endpoint(self.model, self.url, self.key_variable)


def language_model(
    model: str | None,
    url: str | None,
    key_variable: str | None,
    preset: str | None,
    replay: str | None,
    *,
    source: bool = False,
) -> LanguageModel | None:
    """Options -> what is asked for, checked; None without a model. UsageError for what does not fit."""
    given = {"--llm": model, "--llm-url": url, "--llm-key-env": key_variable, "--llm-prompt": preset}
    names = [name for name, value in given.items() if value is not None]
    if replay is not None:
        if names:
            raise UsageError(f"--llm-replay asks no model: leave {' and '.join(names)} out.")
        return LanguageModel(replay=replay, edits_source=source)
    if not names and not source:
        return None
    if model is None or url is None:
        raise UsageError("--llm MODEL and --llm-url URL go together: give both.")
    if preset is not None and preset not in PRESETS:
        hint = did_you_mean(preset, PRESETS)
        raise UsageError(f"--llm-prompt {preset} is none.{hint} Use {' or '.join(PRESETS)}.")
    asked = LanguageModel(model, url, key_variable, preset or USUAL_PRESET, edits_source=source)
    asked.endpoint()
    return asked


def as_repeated(asked: LanguageModel | None, key: RunKey, store: Store) -> LanguageModel | None:
    """A repetition edits what the run that it repeats edited. UsageError where it is to edit sources and that
    run's model edited genes.
    """
    if asked is None or not asked.replay:
        return asked
    run = _run_to_repeat(asked, key, store)
    edits_source = run.key.edits_source
    if asked.edits_source and not edits_source:
        raise UsageError(f"run {run.id} asked for edits of genes: leave --llm-source out.")
    return replace(asked, edits_source=edits_source)


def trials_of(asked: LanguageModel | None, key: RunKey, store: Store, budget: int | None) -> int:
    """What the model of a run that begins now may take without earning it; as the repeated run had it."""
    if asked is None:
        return 0
    return _run_to_repeat(asked, key, store).start.llm_trials if asked.replay else trials(budget)


def _run_to_repeat(asked: LanguageModel, key: RunKey, store: Store) -> Run:
    """The run that is repeated. UsageError where it is of another search, or had no model."""
    run = run_edits.find(store.database, asked.replay)
    if not run.key.llm or run.key.llm.startswith("replay:"):
        raise UsageError(f"run {run.id} asked no language model: --llm-replay wants one that did.")
    if replace(run.key, llm="") != replace(key, llm=""):
        raise UsageError(
            f"run {run.id} is {run.key.search_name} with seed {run.key.seed} for '{run.key.problem}' on "
            f"{run.key.gpu}: give the options of that search."
        )
    return run


@contextmanager
def beside(
    strategy: Strategy,
    asked: LanguageModel | None,
    tasks: Iterable[KernelTask],
    store: Store,
    current: Run,
) -> Iterator[Strategy]:
    """Inside, the strategy with the model that was asked for beside it; `tasks` are those of its families."""
    if asked is None:
        yield strategy
        return
    own = [each for each in read_exchanges(store.database, current) if each.status != ENDED]
    keep = partial(keep_exchange, store.database, current)
    if asked.replay:
        earlier = read_exchanges(store.database, _run_to_repeat(asked, current.key, store))
        letters = Correspondence(None, earlier=earlier, kept=len(own), keep=keep)
        say(f"repeating what the language model of run {asked.replay} answered; none is asked.")
    else:
        letters = Correspondence(asked.endpoint(), earlier=own, kept=len(own), keep=keep)
        what = _WHAT[asked.edits_source]
        say(f"the language model {asked.model} may propose {what}, and random ones are tried beside them.")
    if asked.edits_source and current.key.basis is Basis.ESTIMATED:
        say("edited sources are checked and stored, but not ranked: without the GPU nothing times them.")
    wrapped = WithLanguageModel(
        strategy,
        {each.space.family: each for each in tasks},
        letters,
        model=asked.model,
        preset=asked.preset,
        seed=current.key.seed,
        trials=current.start.llm_trials,
        told_before=len(store.history(current)),
    )
    try:
        yield wrapped
    finally:
        wrapped.close()


def _rule(text: str, family: Family) -> str:
    """The text of a check; empty where it is of derived values, which no model could work out."""
    return "" if set(re.findall(r"[a-z_]\w*", text)) & set(family.let) else text


def kernel_task(
    problem: Problem, gpu: GpuSpec, family: Family, space: SearchSpace, *, edits_source: bool = False
) -> KernelTask:
    """What the model is told of one family."""
    figures = {name: getattr(gpu, name) for name in _OF_THE_GPU}
    conditions = {name: str(expression.text) for name, expression in family.when.items()}
    rules = {name: _rule(str(expression.text), family) for name, expression in family.check.items()}
    floor = floor_us(problem, gpu)
    source = kernel_source(problem, gpu, family) if edits_source else None
    return KernelTask(str(problem), figures, floor, family.summary, space, conditions, rules, source)
