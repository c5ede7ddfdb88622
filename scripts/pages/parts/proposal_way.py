"""The modules that a proposal crosses, as scripts/proposal_path.py traced them on a GPU. Traces nothing."""

from collections import defaultdict

from scripts import ROOT
from scripts.pages import markdown, package_lists
from scripts.records import read_record

RECORD = ROOT / "scripts" / "pages" / "records" / "proposal-path-h100.json"
_LOOP = "from the first stored row to the last"


def table() -> str:
    """A sentence with the counts, and a row for each package with its modules, floor by floor.

    ValueError where the record names a module that is gone: the trace is older than the code.
    """
    ways = read_record(RECORD)["modules"]
    floor_of = {name: floor for floor, names in package_lists.floors() for name in names}
    floor_of["__init__"] = "interfaces"  # the face of the package
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in ways[_LOOP]:
        if not _is_there(module):
            raise ValueError(
                f"{RECORD.name} names {module}, which is gone: run scripts.proposal_path on a GPU."
            )
        folder, _, name = module.removesuffix(".__init__").rpartition(".")
        found[
            floor_of[module.split(".")[0]], "/".join(["evoflash", *filter(None, folder.split("."))])
        ].append(name)
    floors = [floor for floor, _ in package_lists.floors()]
    rows = [
        (floor, f"`{folder}/`", ", ".join(sorted(names)))
        for (floor, folder), names in sorted(
            found.items(), key=lambda item: (floors.index(item[0][0]), item[0][1])
        )
    ]
    loop, first, whole = (len(ways[way]) for way in (_LOOP, "until the first stored row", "whole command"))
    counts = (
        f"{loop} modules; {first} from the command to the first stored row, {whole} in the whole command."
    )
    return "\n".join([counts, "", *markdown.table(("floor", "package", "modules"), rows)]) + "\n"


def _is_there(module: str) -> bool:
    return (ROOT / "evoflash" / module.replace(".", "/")).with_suffix(".py").exists()
