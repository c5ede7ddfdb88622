"""The command that started a script, as its record keeps it. Runs nothing."""

import sys


def command() -> str:
    """`python -m scripts.<topic>.<name>` and its arguments, as they can be typed again without quotes."""
    spec = sys.modules["__main__"].__spec__
    return " ".join(["python", *(["-m", spec.name] if spec else sys.argv[:1]), *sys.argv[1:]])
