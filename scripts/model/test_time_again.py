"""What is timed again, and what a merge leaves as it was; the timing itself wants a GPU."""

from evoflash.specs import load_gpu
from scripts.model.error import RECORD
from scripts.model.time_again import genomes_of, merged
from scripts.records import read_record

_PLACE = {"family": "linear_mma", "gpu": "h100", "problem": "linear:m=1,n=8,k=8"}


def test_times_replace_those_of_an_earlier_text_alone_and_take_their_estimates_with_them():
    old = {**_PLACE, "held_out": True, "earlier": "8", "kernels": [[{"stages": 2}, 5.0, 4.0]]}
    today = {**_PLACE, "gpu": "h200", "kernels": [[{"stages": 2}, 3.0, 3.0]]}
    untimed = {**old, "problem": "linear:m=2,n=8,k=8"}
    timed = [
        {**_PLACE, "kernels": [[{"stages": 2}, 6.0, None]], "wrong": {}},
        {**_PLACE, "gpu": "h200", "kernels": [[{"stages": 2}, 9.0, None]], "wrong": {}},
        {**_PLACE, "problem": "linear:m=2,n=8,k=8", "kernels": [], "wrong": {"a": "hung"}},
    ]
    assert merged([old, today, untimed], timed) == [
        {**_PLACE, "held_out": True, "kernels": [[{"stages": 2}, 6.0, None]]},
        today,
        untimed,
    ]


def test_kernels_of_the_record_are_those_of_today_with_the_values_that_they_had():
    spec = load_gpu("h100")
    groups = [each for each in read_record(RECORD)["groups"] if each["family"] == "linear_mma"]
    for group in groups[:3]:
        had = [values for values, *_ in group["kernels"]]
        for genome in (found := genomes_of(group, spec)):
            assert any(values.items() <= genome.as_dict().items() for values in had)
        assert len(found) == len(had)
    assert groups
