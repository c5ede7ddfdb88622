"""A strategy's contract as test cases to inherit, and the space, objective, evaluator and store they use."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from evoflash.evaluation import Basis, Evaluation, Proposal, Rung, Status
from evoflash.search import InterruptedSearch, Strategy, search
from evoflash.space import Check, Genome, Param, SearchSpace, Values
from evoflash.strategies import make_strategy

Score = Callable[[Genome], float | None]


def _smem_bytes(values: Values) -> int:
    pad = 8 if values["layout"] == "pad8" else 0
    stages = values["k_stages"] + values.get("v_stages", values["k_stages"])
    rows = values["warps"] * values["rows_per_warp"] + stages * values["block_n"]
    return 2 * rows * (64 + pad)


SPACE = SearchSpace(
    family="tiles",
    params=(
        Param("warps", (1, 2, 4, 8)),
        Param("rows_per_warp", (16, 32)),
        Param("block_n", (16, 32, 48, 64, 96, 128)),
        Param("waits", ("separate", "joint")),
        Param("k_stages", (1, 2, 3, 4)),
        Param("v_stages", (1, 2, 3)),
        Param("layout", ("pad8", "xor128", "xor64")),
        Param("q_home", ("registers", "smem")),
        Param("rescale", ("online", "lazy")),
        Param("lazy_tau", (4, 8, 12)),
        Param("epilogue", ("direct", "staged")),
        Param("ctas_per_sm", (1, 2, 3, 4)),
    ),
    checks=(
        Check("smem_fits", lambda v: _smem_bytes(v) * v["ctas_per_sm"] <= 100 * 1024),
        Check("rows_fit", lambda v: v["warps"] * v["rows_per_warp"] <= 128),
    ),
    when={
        "v_stages": lambda v: v["waits"] == "separate",
        "lazy_tau": lambda v: v["rescale"] == "lazy",
    },
    blocks=(
        ("warps", "rows_per_warp", "block_n", "ctas_per_sm"),
        ("k_stages", "v_stages", "waits"),
        ("layout", "q_home"),
        ("rescale", "lazy_tau"),
    ),
)

TINY = SearchSpace(
    family="tiny",
    params=(Param("a", (1, 2, 3, 4, 5)), Param("deep", (False, True)), Param("depth", (1, 2))),
    checks=(Check("small", lambda v: v["a"] * v.get("depth", 1) <= 8),),
    when={"depth": lambda v: v["deep"]},
)


def sampled(count: int, seed: int = 0) -> list[Genome]:
    """Genomes of SPACE; one may come twice."""
    rng = np.random.default_rng(seed)
    return [SPACE.sample(rng) for _ in range(count)]


def distinct(count: int, seed: int = 0) -> list[Genome]:
    """Those of sampled(), each once."""
    return list(dict.fromkeys(sampled(count, seed)))


def score_us(genome: Genome) -> float | None:
    """A smooth objective with cliffs: spills past the register limit, and None (no launch) far past it."""
    v = genome.as_dict()
    tiles = v["rows_per_warp"] // 16
    registers = 40 + tiles * (v["block_n"] / 2 + 32 + (16 if v["q_home"] == "registers" else 4))
    if registers > 255:
        return None
    limit = min(255, 65536 / (32 * v["warps"] * v["ctas_per_sm"]))
    spills = 1 + 0.6 * max(0.0, registers - limit) / limit
    occupancy = 1 + 0.25 * abs(math.log2(v["warps"] * v["ctas_per_sm"] / 8)) ** 1.3
    traffic = 1 + 0.3 / tiles + 6.4 / v["block_n"]
    latency = 1 + (0.15, 0.05, 0.03, 0.04)[v["k_stages"] - 1] + (0.06, 0.05, 0.02, 0.03)[v.get("v_stages", 0)]
    layout = {"pad8": 1.05, "xor128": 1.0, "xor64": 1.08}[v["layout"]]
    softmax = {0: 1.05, 4: 1.02, 8: 1.0, 12: 1.01}[v.get("lazy_tau", 0)]
    return (
        20
        * spills
        * occupancy
        * traffic
        * latency
        * layout
        * softmax
        * (1 + 0.02 * (v["epilogue"] == "direct"))
    )


def evaluated(genome: Genome, us: float | None, *, duplicate_of: str = "") -> Evaluation:
    """The record of a genome that took `us`, or that crashed when that is None."""
    status = Status.RUNTIME if us is None else Status.CORRECT
    return Evaluation(
        genome, "p", "g", Basis.REPLAYED, status, Rung.DONE, score_us=us, duplicate_of=duplicate_of
    )


class Recorded:
    """An evaluator that looks times up; `twin` names the genome that another one is a duplicate of."""

    basis = Basis.REPLAYED
    has_arrived = False

    def __init__(self, score: Score, *, ahead: int = 1, twin: Callable[[Genome], str] | None = None) -> None:
        self.score, self.ahead, self.twin = score, ahead, twin
        self.queue: deque[Proposal] = deque()
        self.most_pending = 0

    @property
    def pending(self) -> int:
        return len(self.queue)

    def submit(self, proposal: Proposal) -> None:
        self.queue.append(proposal)
        self.most_pending = max(self.most_pending, self.pending)

    def collect(self) -> tuple[Proposal, Evaluation]:
        proposal = self.queue.popleft()
        genome = proposal.genome
        twin = self.twin(genome) if self.twin else ""
        return proposal, evaluated(genome, self.score(genome), duplicate_of=twin)

    def cancel(self) -> None:
        self.queue.clear()


class Notebook:
    """A store of one run, in memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[Proposal, Evaluation]] = []

    def history(self, run: str) -> list[tuple[Proposal, Evaluation]]:
        return list(self.rows)

    def spent_budget(self, run: str) -> int:
        return sum(not evaluation.duplicate_of for _, evaluation in self.rows)

    def add_all(self, run: str, outcomes: Sequence[tuple[Proposal, Evaluation]]) -> None:
        self.rows += outcomes

    @property
    def proposals(self) -> list[Proposal]:
        return [proposal for proposal, _ in self.rows]


def spend(
    strategy: Strategy,
    budget: int,
    *,
    score: Score = score_us,
    ahead: int = 1,
    notebook: Notebook | None = None,
) -> Notebook:
    """Search on recorded times and return what was noted."""
    notebook = Notebook() if notebook is None else notebook
    search(strategy, Recorded(score, ahead=ahead), notebook, "run", budget=budget)
    return notebook


def cut(strategy: Strategy, budget: int, *, at: int, ahead: int) -> Notebook:
    """What was noted of a search that Ctrl-C ended after `at` outcomes, with others in flight."""
    notebook = Notebook()

    def stop(proposal: Proposal, evaluation: Evaluation) -> None:
        if len(notebook.rows) == at:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedSearch):
        search(strategy, Recorded(score_us, ahead=ahead), notebook, "run", budget=budget, on_evaluation=stop)
    return notebook


def fails(genome: Genome) -> None:
    """The score of a machine on which nothing works."""


@cache
def _searched(cases: "type[StrategyCases]", ahead: int) -> Notebook:
    return spend(cases().make(), BUDGET, ahead=ahead)


BUDGET = 60


class StrategyCases:
    """Inherit and set `name`: every strategy keeps these promises."""

    name: str

    def make(self, space: SearchSpace = SPACE, *, seed: int = 0) -> Strategy:
        return make_strategy(self.name, space, seed=seed)

    def spaces(self, space: SearchSpace = SPACE) -> tuple[SearchSpace, ...]:
        """What the strategy that make(space) returns searches: one space, unless it is a bandit's."""
        return (space,)

    def searched(self, *, ahead: int = 1) -> Notebook:
        """What a search noted that nothing stopped: made once for several tests, which only read it."""
        return _searched(type(self), ahead)

    def begun(self, rows: int, *, ahead: int = 1) -> Notebook:
        """The same as far as its first rows, to go on with."""
        notebook = Notebook()
        notebook.rows = self.searched(ahead=ahead).rows[:rows]
        return notebook

    @pytest.mark.parametrize("ahead", [1, 4])
    def test_only_valid_genomes_are_proposed(self, ahead: int) -> None:
        notebook = self.searched(ahead=ahead)
        spaces = {space.family: space for space in self.spaces()}
        assert all(spaces[p.genome.family].is_valid(p.genome) for p in notebook.proposals)

    @pytest.mark.parametrize("ahead", [1, 4])
    def test_no_genome_is_proposed_twice(self, ahead: int) -> None:
        proposals = self.searched(ahead=ahead).proposals
        assert len({proposal.genome for proposal in proposals}) == len(proposals) == BUDGET

    def test_the_same_seed_repeats_the_search(self) -> None:
        assert spend(self.make(), BUDGET, ahead=4).proposals == self.searched(ahead=4).proposals

    def test_another_seed_gives_another_search(self) -> None:
        assert spend(self.make(seed=2), 20).proposals != self.begun(20).proposals

    @pytest.mark.parametrize("stop", [1, 15, 37])
    def test_a_resumed_search_proposes_what_an_unbroken_one_does(self, stop: int) -> None:
        unbroken = self.searched()
        assert spend(self.make(), BUDGET, notebook=self.begun(stop)).proposals == unbroken.proposals

    def test_a_search_cut_with_work_in_flight_goes_on_as_an_unbroken_one_does(self) -> None:
        unbroken = self.searched(ahead=4)
        broken = cut(self.make(), BUDGET, at=33, ahead=4)
        assert spend(self.make(), BUDGET, ahead=4, notebook=broken).proposals == unbroken.proposals

    def test_a_search_resumed_with_work_lost_in_flight_repeats_nothing(self) -> None:
        notebook = self.begun(30, ahead=4)
        interrupted = self.make()
        for proposal, evaluation in notebook.rows:
            interrupted.tell(proposal, evaluation)
        assert interrupted.ask() is not None  # in flight when the machine goes down
        proposals = spend(self.make(), BUDGET, ahead=4, notebook=notebook).proposals
        assert len({proposal.genome for proposal in proposals}) == len(proposals) == BUDGET

    def test_a_space_where_everything_fails_is_searched_to_the_budget(self) -> None:
        notebook = spend(self.make(), 50, score=fails)
        assert len(notebook.rows) == 50

    @pytest.mark.parametrize("score", [lambda g: 1.0 + g.as_dict()["a"], fails], ids=["correct", "failing"])
    def test_a_tiny_space_is_proposed_whole_and_then_nothing(self, score: Score) -> None:
        strategy = self.make(TINY)
        notebook = spend(strategy, 1000, score=score)
        everything = {genome for space in self.spaces(TINY) for genome in space}
        assert {proposal.genome for proposal in notebook.proposals} == everything
        assert len(notebook.rows) == len(everything)
        assert strategy.ask() is None

    def test_the_budget_is_spent_exactly_with_more_in_flight_than_are_left(self) -> None:
        assert len(spend(self.make(), 43, ahead=8).rows) == 43

    def test_history_from_an_older_version_of_the_family_is_survived(self) -> None:
        strategy = self.make()
        for us in (1.0, 2.0):
            old = Genome("tiles", 0, (("block_n", int(us)), ("gone", "x")))
            strategy.tell(Proposal(old, "no_such_operator", ("0" * 16,)), evaluated(old, us))
        assert len(spend(strategy, 40).rows) == 40
