"""Proposals that are compiled for GPUs that are not here: which are drawn, and what is said of them."""

from dataclasses import replace

from evoflash.kernels.family import load_family
from evoflash.specs import load_gpu
from scripts.families.compiled_proposals import Compiled, compiled, proposals, summary

A10 = load_gpu("a10")


def drawn(draws):
    return list(proposals(load_family("decode_mma"), A10, draws=draws, seed=4))


def test_the_same_seed_draws_the_same_valid_proposals():
    first = drawn(6)
    assert first == drawn(6)
    assert len({str(each.key) for each in first}) == 6
    for each in first:
        assert load_family("decode_mma").space((each.key,), A10).is_valid(each.genome)


def test_a_proposal_is_compiled_for_its_gpu():
    found = compiled(drawn(1)[0])
    assert (found.wrong, found.spill_bytes) == ("", 0)
    assert 0 < found.registers <= 255


def test_what_is_not_whole_is_counted_and_named():
    whole = Compiled(drawn(1)[0], "", 100)
    rows = [whole] * 7 + [replace(whole, wrong="spills", spill_bytes=8), replace(whole, wrong="warns")]
    found = summary([*rows, replace(whole, wrong="does not compile", log="error: x")])
    assert found["without_spills"] == 0.8
    assert [each["wrong"] for each in found["not_whole"]] == ["spills", "warns", "does not compile"]
