"""Shows what `evoflash best` found, as JSON or text. Looks for no kernel."""

import json
from dataclasses import asdict
from typing import Any

from evoflash.app.best import BestKernel, provenance
from evoflash.app.words import export_commands, values_line
from evoflash.champions import Champion
from evoflash.evaluation import Evaluation, Rung
from evoflash.views import kernel


def describe(answer: BestKernel) -> str:
    """The kernel to use, and for one of the archive where it was measured."""
    if answer.archived is None:
        return kernel.brief(answer.evaluation)
    if answer.result is None:
        return describe_archived(answer.archived, answer.evaluation)
    return (
        f"{kernel.describe_result(answer.result, as_json=False)}\narchive   {archived_time(answer.archived)}"
    )


def as_json(answer: BestKernel) -> str:
    """A list of one object."""
    if answer.archived is not None and answer.result is None:
        return json.dumps([_archived_as_dict(answer.archived, answer.evaluation)], indent=2)
    return kernel.as_json([answer.evaluation])


def describe_archived(known: Champion, checked: Evaluation) -> str:
    """A kernel of the archive that was checked here and not timed."""
    lines = [
        *_head(known),
        *map(kernel.describe_build, checked.builds),
        kernel.describe_checks(checked.verdicts),
    ]
    lines.append(f"source    {known.source}")
    again = export_commands(known.genome, known.problem, known.gpu)
    lines += [f"again     {command}" for command in again]
    return "\n".join(lines)


def _head(known: Champion) -> list[str]:
    baselines = ", ".join(f"{name} {us:.2f} us" for name, us in known.rivals_us.items())
    return [
        f"kernel    {known.genome.id}  {known.genome.family}",
        values_line(known.genome, known.problem, known.gpu),
        f"problem   {known.problem}   on {known.gpu}",
        "status    correct in the emulator, not run on a GPU here",
        f"time      {archived_time(known)}",
        f"          {known.protocol}" + (f"; in the same run {baselines}" if baselines else ""),
    ]


def archived_time(known: Champion) -> str:
    """The archive's time with its mark: it was measured on another machine."""
    return f"{known.us:.2f} us, {provenance(known)}"


def _archived_as_dict(known: Champion, checked: Evaluation) -> dict[str, Any]:
    """Keys as an evaluation's where they mean the same. The archived time stands apart: it is no score."""
    genome = {"id": known.genome.id, "family": known.genome.family, "values": known.genome.as_dict()}
    said = {name: value for name, value in asdict(known).items() if name not in ("genome", "problem", "gpu")}
    builds = [{k: v for k, v in asdict(build).items() if k != "log"} for build in checked.builds]
    return {
        "genome": genome,
        "problem": known.problem,
        "gpu": known.gpu,
        "basis": "archived",
        "status": "correct",
        "rung": Rung.PREFLIGHT.value,
        "score_us": None,
        "archived": said,
        "builds": builds,
        "verdicts": [asdict(verdict) for verdict in checked.verdicts],
    }
