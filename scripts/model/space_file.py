"""The file of a recorded space: profiles as JSON and back, a line for each genome. Records nothing."""

import json
from dataclasses import asdict
from typing import Any

from evoflash.perf_model.estimate import Counts, Profile


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile as JSON holds it: counts that are zero are left out."""

    def brief(numbers: Any) -> dict[str, float]:
        return {name: round(n, 2) for name, n in numbers.items() if round(n, 2)}

    launches = [{"fixed": brief(n.fixed), "per_step": brief(n.per_step)} for n in profile.launches]
    return {**asdict(profile), "launches": launches}


def read_profile(record: dict[str, Any]) -> Profile:
    """The profile that profile_record wrote."""
    return Profile(**{**record, "launches": tuple(Counts(**each) for each in record["launches"])})


def written(head: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The document as text, one line for each genome."""
    lines = ",\n".join("  " + json.dumps(row, separators=(",", ":")) for row in rows)
    return json.dumps(head, indent=1)[:-2] + ',\n "genomes": [\n' + lines + "\n ]\n}\n"
