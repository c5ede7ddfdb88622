"""Rows of records out of searches: ratios, libraries that were left out, which row replaces which."""

import json

from evoflash.evaluation import Baseline, Basis, Evaluation, Proposal, Rung, RunKey, Status, Timing
from evoflash.kernels.family import load_family
from evoflash.problem import parse_problem
from evoflash.specs import load_gpu
from evoflash.store.store import open_store
from scripts.peers.found import found, row_of, updated
from scripts.peers.ratios import line_of

H100 = load_gpu("h100")
CARD = H100.device_names[0]
DENSE, LINEAR = "b=6,h=20,s=700,d=64", "linear:8b_o,m=31,dtype=fp8b128"


def request(folder, row, family, *, answers=True, kept=("fast", "slow")):
    """What a request leaves: ours takes 10 us, `fast` 8 and `slow` 20; the libraries `kept` were right."""
    asked, loaded = parse_problem(row), load_family(family)
    genome = loaded.seeds_for(asked, loaded.space(asked.compile_keys(H100.arch), H100), H100)[0]
    problem = str(asked)
    (folder / "out").mkdir(parents=True)
    pairs = [
        {
            "first": genome.id,
            "second": name,
            "protocol": protocol,
            "ratio": 10 / us,
            "low": 9 / us,
            "high": 12.5 / us,
        }
        for name, us in (("fast", 8), ("slow", 20))
        for protocol in ("final-cold", "final-hot")
    ]
    (folder / "out" / "search.json").write_text(json.dumps({"comparisons": pairs}) if answers else "")

    def timings(us):
        return tuple(Timing(problem, each, us, us, us, 9) for each in ("final-cold", "final-hot"))

    with open_store(str(folder / "out" / "evoflash.db")) as store:
        key = RunKey(problem, "h100", Basis.MEASURED, "surrogate", 0)
        said = ["search", "--problem", row]
        run = store.begin(key, gpu_hash=H100.hash, budget=200, argv=said, environment={})
        outcome = (Status.CORRECT, Rung.DONE)
        ours = Evaluation(
            genome,
            problem,
            "h100",
            Basis.MEASURED,
            *outcome,
            timings=timings(10.0),
            score_us=10.0,
            environment={"gpu": CARD},
        )
        store.add(run, ours, Proposal(genome))
        for name, us in (("fast", 8.0), ("slow", 20.0)):
            if name in kept:
                store.add_baseline(run, Baseline(name, problem, "h100", timings(us), us))
    return row_of(found(folder))


def test_ratios_are_a_librarys_time_over_ours_on_cold_inputs(tmp_path):
    line = line_of(request(tmp_path, DENSE, "flash_mma"), {})
    (state,) = line.states
    assert (state.protocol, state.us) == ("final-cold", 10.0)
    fast, slow = state.peers
    assert (fast.peer, fast.us, fast.ratio, fast.low) == ("fast", 8.0, 0.8, 0.64)
    assert (slow.peer, slow.us, slow.ratio) == ("slow", 20.0, 2.0)


def test_a_library_that_the_check_left_out_does_not_count(tmp_path):
    line = line_of(request(tmp_path, DENSE, "flash_mma", kept=["slow"]), {})
    assert [peer.peer for peer in line.states[0].peers] == ["slow"]


def test_a_linear_layer_has_its_kind_its_bandwidth_and_its_rivals(tmp_path):
    row = request(tmp_path, LINEAR, "linear_wgmma")
    assert (row["row"], row["card"], row["kind"], row["us"]) == (LINEAR, CARD, "FP8 in blocks, m = 31", 10.0)
    assert 4096 * 4096 / 10e3 < row["gb_per_s"] < 1.1 * 4096 * 4096 / 10e3
    assert row["rivals"] == {"fast": [0.8, 0.64, 0.889], "slow": [2.0, 1.6, 2.222]}


def test_a_row_takes_the_place_of_the_same_problem_on_the_same_card():
    def row(name, card, us, kind="m = 1"):
        return {"row": name, "card": card, "us": us, "kind": kind}

    old = [row("a", "H200", 1), row("a", "H100", 2), row("c", "H200", 3, "m = 2")]
    assert updated(old, [row("a", "H100", 4), row("b", "H100", 5), row("d", "H100", 6, "m = 2")]) == [
        row("a", "H100", 4),
        row("b", "H100", 5),
        row("a", "H200", 1),
        row("d", "H100", 6, "m = 2"),
        row("c", "H200", 3, "m = 2"),
    ]


def test_a_search_that_was_cut_is_said_and_replaces_no_figures(tmp_path):
    cut = request(tmp_path / "cut", DENSE, "flash_mma", answers=False)
    assert (cut["row"], cut["failure"], cut["search"]["spent"]) == (DENSE, "cut in its search", 1)
    whole = request(tmp_path / "whole", DENSE, "flash_mma")
    assert updated([whole], [cut]) == [whole] == updated([cut], [whole])
    assert updated([{"row": DENSE, "failure": "not begun"}], [cut]) == [cut]
