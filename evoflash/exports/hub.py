"""The kind "hub" is a folder that Hugging Face's `kernels` loads, in its layout without compiled extensions.

build/torch-cuda is what is loaded: evoflash's runtime, launch.json and the cubins as data; build.toml and
torch-ext are what kernel-builder makes the same of again.
"""

import json
import re
from pathlib import Path

from evoflash import operation as registry
from evoflash import runtime
from evoflash.errors import UsageError
from evoflash.exports.claims import facts
from evoflash.exports.exported import ExportRequest
from evoflash.exports.launch_json import Artefact, artefact, file_names
from evoflash.exports.one_file import MODULES, made_of
from evoflash.operation import PythonDoor
from evoflash.written_files import check_replaceable, make_folder, write_bytes

VARIANT = "torch-cuda"  # of every PyTorch built for CUDA
VERSION = 1

_INIT = '''"""{title}: the kernel {name}, found by evoflash.

    {signature}

README.md says what it computes, where it was measured and what it refuses.
"""

from pathlib import Path

{imports}

__all__ = [{offered}]

{function} = {maker}(Kernel.read(Path(__file__).parent))
{made}'''

# What `kernels` before 0.10 imports.
_COMPATIBLE = '''"""The package above, under the name that older versions of `kernels` import."""

import importlib.util
import sys
from pathlib import Path

_path = Path(__file__).parent.parent / "__init__.py"
_spec = importlib.util.spec_from_file_location("{identity}", _path)
_module = importlib.util.module_from_spec(_spec)
sys.modules["{identity}"] = _module
_spec.loader.exec_module(_module)
globals().update({{name: getattr(_module, name) for name in ("__all__", *_module.__all__)}})
'''

_BUILD = """[general]
name = "{name}"
version = {version}
edition = 5
license = "Apache-2.0"
backends = ["cuda"]

[torch-noarch]
pyext = ["py", "json", "cubin"]
"""


def write(exported: ExportRequest, path: Path) -> tuple[Path, ...]:
    """Writes the folder; UsageError where it is a file, or a folder that holds anything but an export."""
    if path.exists() and not (path.is_dir() and (not any(path.iterdir()) or (path / "build.toml").exists())):
        raise UsageError(f"{path} is there and no folder of such an export: choose another path.")
    made = artefact(exported, file_names("kernel", exported), command=exported.command("hub", path.name))
    texts, cubins = files_of(made)
    check_replaceable(*(path / name for name in (*texts, *cubins)))
    for name, content in (*cubins.items(), *((name, text.encode()) for name, text in texts.items())):
        target = path / name
        make_folder(target.parent)
        write_bytes(target, content)
    return (path, *(path / name for name in texts), *(path / name for name in cubins))


def files_of(made: Artefact) -> tuple[dict[str, str], dict[str, bytes]]:
    """The folder's texts and its cubins, by their paths in it."""
    name = kernel_name(made)
    python_name, identity = name.replace("-", "_"), _identity(made)
    form = registry.load(made.description["operation"]).launch_form
    assert form is not None, "an artefact is of a form"
    door = form.doors["torch"]
    package = {f"{module}.py": _module(module) for module in (*MODULES, *door.modules)}
    package["__init__.py"] = _init(made, form.function, door)
    package["launch.json"] = json.dumps(made.description, indent=2) + "\n"
    variant, source = f"build/{VARIANT}", f"torch-ext/{python_name}"
    texts = {
        "README.md": _card(made, name, door),
        "build.toml": _BUILD.format(name=name, version=VERSION),
        f"{variant}/metadata.json": _metadata(made, name, identity),
        f"{variant}/{python_name}/__init__.py": _COMPATIBLE.format(identity=identity),
        **{f"{where}/{file}": text for where in (variant, source) for file, text in package.items()},
    }
    images = made.description["images"]
    cubins = {
        f"{where}/{images[arch]['file']}": cubin
        for where in (variant, source)
        for arch, cubin in made.images.items()
    }
    return texts, cubins


def _init(made: Artefact, function: str, door: PythonDoor) -> str:
    homes: dict[str, list[str]] = {"launch": ["Kernel", "Refused"]}
    makers = ((maker, module) for module, maker in (*door.made.values(), door.maker))
    for name, module in (*door.offers.items(), *makers):
        homes.setdefault(module, []).append(name)
    offered = (*sorted((door.maker[1], "Kernel", "Refused")), function, *door.made, *door.offers)
    return _INIT.format(
        title=door.title,
        name=made.description["name"],
        signature=door.signature,
        imports="\n".join(f"from .{module} import {', '.join(homes[module])}" for module in homes),
        offered=", ".join(f'"{name}"' for name in offered),
        function=function,
        maker=door.maker[1],
        made=made_of(door, function),
    )


def kernel_name(made: Artefact) -> str:
    """The kernel's name as the Hub allows it: small letters, digits and hyphens."""
    kernel = made.description["kernel"]
    return re.sub(r"[^a-z0-9]+", "-", f"evoflash-{kernel['family']}-{kernel['genome'][:8]}".lower())


def _identity(made: Artefact) -> str:
    digits = "".join(image["sha256"][:8] for image in made.description["images"].values())
    return f"_{kernel_name(made).replace('-', '_')}_cuda_{digits[:16]}"


def _module(name: str) -> str:
    return (Path(runtime.__path__[0]) / f"{name}.py").read_text(encoding="utf-8")


def _metadata(made: Artefact, name: str, identity: str) -> str:
    archs = [_capability(arch) for arch in made.images]
    metadata = {
        "id": identity,
        "name": name,
        "version": VERSION,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": "cuda", "archs": archs},
    }
    return json.dumps(metadata, indent=2) + "\n"


def _capability(arch: str) -> str:
    """ "sm_90a" as "9.0a"."""
    digits = arch.removeprefix("sm_")
    suffix = digits[len(digits.rstrip("af")) :]
    number = digits.removesuffix(suffix) if suffix else digits
    return f"{number[:-1]}.{number[-1]}{suffix}"


def _card(made: Artefact, name: str, door: PythonDoor) -> str:
    rows = "\n".join(f"| {label} | {text} |" for label, text in facts(made.description))
    return f"""---
license: apache-2.0
tags:
- kernels
---

# {name}

{door.title}, found by evoflash. It needs Python 3.10, PyTorch 2.11 and an NVIDIA driver of CUDA 12, or later
ones, and nothing else.

| | |
| --- | --- |
{rows}

{door.hub_use}"""
