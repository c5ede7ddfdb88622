"""Numbers and commands as they stand in a report, which others will read."""

import re

_PASSWORD = re.compile(r"(://[^:/@\s]*):[^/\s]*@")  # of a database's URL


def short(value: float) -> str:
    """Four digits, and never an exponent above 1000; a whole number whole."""
    if isinstance(value, int) or abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:#.4g}".removesuffix(".")


def without_password(command: str) -> str:
    """A command with the password of its database's URL left out."""
    return _PASSWORD.sub(r"\1:***@", command)
