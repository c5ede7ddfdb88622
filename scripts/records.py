"""Records of measurements, JSON that xz may have compressed, and the command that made one."""

import json
import lzma
import sys
from pathlib import Path
from typing import Any

_XZ = ".xz"


def command() -> str:
    """`python -m scripts.<topic>.<name>` and its arguments, as they can be typed again without quotes."""
    spec = sys.modules["__main__"].__spec__
    return " ".join(["python", *(["-m", spec.name] if spec else sys.argv[:1]), *sys.argv[1:]])


def stored(record: Path) -> Path:
    """The file that holds a record: of that name, or of that name and ".xz"."""
    packed = record.with_name(record.name + _XZ)
    return packed if packed.exists() and not record.exists() else record


def read_record(record: Path) -> Any:
    """What a record says; its file may have been compressed since."""
    file = stored(record)
    return json.loads(lzma.decompress(file.read_bytes()) if file.suffix == _XZ else file.read_bytes())


def write_record(file: Path, record: Any) -> None:
    """As indented JSON; compressed where the file's name ends in ".xz", as what is committed should be."""
    text = (json.dumps(record, indent=1) + "\n").encode()
    file.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME) if file.suffix == _XZ else text)
