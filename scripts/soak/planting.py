"""Copies of the shipped families with a fault planted in every tenth genome: what run.py searches.

A genome's id decides which fault it has, so no gene gives it away. Faults of the GPU are in the text that
NVRTC sees and not in the one that g++ compiles for the emulator: pre-flight would keep them from the GPU.
Runs nothing.
"""

import re
from pathlib import Path

from evoflash.paths import TEMPLATES

# A fault for each of these lots out of LOTS.
LOTS = 40
ADDRESS, HOST, HANG, NAN = "illegal address", "host crash", "hang", "NaN"
PLANTS = {0: ADDRESS, 1: HOST, 2: HANG, 3: NAN}
_DIGITS = 8  # of the id, that make the lot

_CHOICE = (
    f"{{% set lot = (banner.split('genome ')[1][:{_DIGITS}] | int(0, 16)) % {LOTS} %}}\n"
    f"{{% set plant = {PLANTS}.get(lot, '') %}}\n"
)
_DECLARED = f"""
{{% if plant == '{HOST}' %}}
#ifndef __CUDACC_RTC__
extern "C" void _exit(int);
#endif
{{% elif plant == '{NAN}' %}}
#ifdef __CUDACC_RTC__
EF_DEV float spoilt(float x) {{ return x * (ef::neg_inf() - ef::neg_inf()); }}
#else
EF_DEV float spoilt(float x) {{ return x; }}
#endif
{{% endif %}}
"""
_DONE = f"""{{% if plant == '{ADDRESS}' %}}
#ifdef __CUDACC_RTC__
  ((volatile int*)O)[1ll << 40] = 1;
#endif
{{% elif plant == '{HANG}' %}}
#ifdef __CUDACC_RTC__
  while (((volatile const int*)Q)[0] != 0x7fc01235) {{}}
#endif
{{% elif plant == '{HOST}' %}}
#ifndef __CUDACC_RTC__
  _exit(3);
#endif
{{% endif %}}
"""
_ENTRY = re.compile(r"\{\{ entry \}\}\((?:[^)]|\)(?! \{\n))*\) \{\n")
_RESULT = "ef::rcp(sum)"


def plant_of(genome_id: str) -> str:
    """The fault of a genome; empty for nine of ten."""
    return PLANTS.get(int(genome_id[:_DIGITS], 16) % LOTS, "")


def planted(text: str) -> str:
    """A family's template with the faults in it, but for NaN; ValueError where it has no place for one."""
    header, end, body = text.partition("---#}\n")
    parts = body.partition('#include "ef.h"\n')
    entry = _ENTRY.search(parts[2])
    if not (end and parts[1] and entry):
        raise ValueError("the template has no header or no kernel")
    kernel = parts[2][: entry.end()] + _DONE + parts[2][entry.end() :]
    return header + end + _CHOICE + parts[0] + parts[1] + _DECLARED + kernel


def spoilt(text: str) -> str:
    """A template, or a part of one, whose division by the sum of a row gives NaN where that is the fault."""
    return text.replace(_RESULT, f"{{{{ 'spoilt({_RESULT})' if plant == '{NAN}' else '{_RESULT}' }}}}")


def plant(folder: Path) -> tuple[str, ...]:
    """Write a planted copy of every shipped family, with its parts, to a folder; their names."""
    names = sorted(path.name.removesuffix(".cu.j2") for path in TEMPLATES.glob("*.cu.j2"))
    for name in names:
        main = TEMPLATES / f"{name}.cu.j2"
        texts = {path: path.read_text(encoding="utf-8") for path in (main, *(TEMPLATES / name).glob("*.*"))}
        if not any(_RESULT in text for text in texts.values()):
            raise ValueError(f"{name} has no division by the sum of a row")
        texts[main] = planted(texts[main])
        for path, text in texts.items():
            copy = folder / path.relative_to(TEMPLATES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(spoilt(text), encoding="utf-8")
    return tuple(names)
