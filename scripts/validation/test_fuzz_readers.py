"""A few changed inputs of each reader; the script tries thousands."""

from scripts.validation.fuzz_readers import fuzz


def test_no_changed_file_ends_in_a_traceback_a_hang_or_another_file() -> None:
    result = fuzz(12, seed=1)

    assert result["findings"] == []
    assert all(sum(counts.values()) == 12 for counts in result["endings"].values())
