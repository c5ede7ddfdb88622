"""Numbers and commands as they stand in a report, which others will read."""


def short(value: float) -> str:
    """Four digits, and never an exponent above 1000; a whole number whole."""
    if isinstance(value, int) or abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:#.4g}".removesuffix(".")
