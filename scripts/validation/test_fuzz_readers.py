"""A few changed inputs of each reader; the script tries thousands."""

from scripts.validation.fuzz_readers import fuzz, outcome_of, readers


def test_no_changed_file_ends_in_a_traceback_a_hang_or_another_file() -> None:
    result = fuzz(8, seed=1)

    assert result["findings"] == []
    assert all(sum(counts.values()) == 8 for counts in result["endings"].values())


def test_each_file_is_read_as_it_is_before_anything_is_changed(tmp_path) -> None:
    kinds = readers(tmp_path)
    whole = {kind: outcome_of(read, tmp_path / name, good) for kind, (name, good, read) in kinds.items()}
    assert {kind: ended for kind, ended in whole.items() if ended != ("read", "")} == {}
