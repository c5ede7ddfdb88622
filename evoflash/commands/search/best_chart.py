"""The best so far as a small chart of characters, for a terminal. Draws; counts and times nothing."""

import math
from collections.abc import Sequence

ROWS, LONGEST, NARROWEST = 3, 60, 36  # lines; columns at most; the narrowest terminal that gets one
_EIGHTHS = " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"  # an eighth of a line's height each
_ASCII = "    ..::#"

Best = tuple[int, float]  # after so many evaluations the best time became so many us


def chart(
    best: Sequence[Best], spent: int, total: int | None, width: int, *, mark: str = "", is_ascii: bool = False
) -> list[str]:
    """Lines of a chart of the best time by evaluations, logarithmic, behind its first and its last time.

    It is as long as the budget (`total`), and filled as far as `spent`; as long as what was spent where there
    is no budget. Empty where the best never changed, or where there is no room. `mark` stands before a time.
    """
    if len(best) < 2 or width < NARROWEST:
        return []
    labels = [f"{mark}{best[0][1]:.2f}", *[""] * (ROWS - 2), f"{mark}{best[-1][1]:.2f}"]
    wide = max(map(len, labels))
    columns = min(width - wide - 2, LONGEST)
    heights = [_height(best, column, columns, spent, total or spent) for column in range(columns)]
    signs = _ASCII if is_ascii else _EIGHTHS
    rows = []
    for row in range(ROWS):
        below = 8 * (ROWS - 1 - row)
        filled = "".join(signs[min(max(height - below, 0), 8)] for height in heights)
        rows.append(f"{labels[row]:>{wide}} {filled}".rstrip())
    return rows


def _height(best: Sequence[Best], column: int, columns: int, spent: int, total: int) -> int:
    """Eighths of a line that a column is high: one for the best of all, 0 where there is none."""
    begins, ends = total * column / columns, total * (column + 1) / columns
    known = [us for evaluations, us in best if evaluations <= ends]
    if begins >= spent or not known:
        return 0
    first, last = best[0][1], best[-1][1]
    return 1 + round((8 * ROWS - 1) * math.log(known[-1] / last) / math.log(first / last))
