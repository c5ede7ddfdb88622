"""What a run took, in words and for JSON, in money too where a price is known. It stores nothing."""

import math

from evoflash.errors import UsageError
from evoflash.store.cost import Cost


def checked_price(price_per_hour: float | None) -> float | None:
    """The price of an hour of a GPU, as it was given. UsageError for a number that is no price."""
    if price_per_hour is not None and not 0 <= price_per_hour < math.inf:
        raise UsageError(f"--price-per-hour {price_per_hour:g}: give what an hour of the GPU costs, as 3.50.")
    return price_per_hour


def in_words(cost: Cost | None, price_per_hour: float | None = None) -> str:
    """`3.6 GPU minutes, 12.4 CPU minutes`, with a price also the money; empty where it was not noted.

    Where no GPU was used, the CPU minutes alone.
    """
    if cost is None:
        return ""
    words = f"{minutes(cost.cpu_s)} CPU minutes"
    if not cost.gpu_s:
        return words
    words = f"{minutes(cost.gpu_s)} GPU minutes, {words}"
    if price_per_hour is None:
        return words
    return f"{words}; {money(cost, price_per_hour):.2f} at {price_per_hour:.2f} for a GPU hour"


def minutes(seconds: float) -> str:
    """`0.05`, `0.4`, `12.4` or `310`; `0` where there were none."""
    number = seconds / 60
    digits = 0 if number >= 100 or not number else 1 if number >= 0.095 else 2
    return f"{number:.{digits}f}"


def money(cost: Cost, price_per_hour: float) -> float:
    """What the GPU cost, in the price's currency."""
    return cost.gpu_s / 3600 * price_per_hour


def as_dict(cost: Cost | None, price_per_hour: float | None = None) -> dict[str, float | None]:
    """`gpu_minutes` and `cpu_minutes` (null where they were not noted), and with a price it and the money."""
    known = {
        "gpu_minutes": None if cost is None else cost.gpu_s / 60,
        "cpu_minutes": None if cost is None else cost.cpu_s / 60,
    }
    if price_per_hour is None:
        return known
    paid = None if cost is None else money(cost, price_per_hour)
    return known | {"price_per_hour": price_per_hour, "price": paid}
