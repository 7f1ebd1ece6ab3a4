"""The goals of the warehouse, and the table that says which are met."""
from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

MIB = 1 << 20


@dataclasses.dataclass
class Row:
    """A ratio (or share) with its goal: at most `goal`, or at least where `at_least` says so. goal None: shown only."""

    what: str
    ratio: float | None = None
    least: float | None = None  # of the rounds
    most: float | None = None
    goal: float | None = None
    at_least: bool = False
    note: str = ""  # the two sides, or why there is no number
    limit: float | None = None  # the ratio that the raw socket loop would leave for the bytes that were moved

    @property
    def met(self) -> bool | None:
        """None: nothing to judge."""
        if self.goal is None or self.ratio is None:
            return None
        return self.ratio >= self.goal if self.at_least else self.ratio <= self.goal


def over(what: str, ours: Sequence[float], theirs: Sequence[float], goal: float | None, unit: str = "ms",
         at_least: bool = False, names: tuple[str, str] = ("", "")) -> Row:
    """Ours over theirs: the ratio of the medians; its extremes are those of the rounds, which belong together."""
    if not ours or not theirs:
        return Row(what, goal=goal, at_least=at_least, note="not measured")
    rounds = [one / other for one, other in zip(ours, theirs)]
    left, right = statistics.median(ours), statistics.median(theirs)
    note = " / ".join(f"{name} {digits(value)} {unit}".strip()
                      for name, value in zip(names, (left, right), strict=True))
    return Row(what, left / right, min(rounds), max(rounds), goal, at_least, note)


def digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def text(rows: Sequence[Row]) -> str:
    """The table. A row without a goal is shown, a goal without a number is said to be missing."""
    lines = [("what", "ratio [min-max]", "goal", "met", "limit", "")]
    for row in rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.3f}"
        if row.ratio is not None and row.least is not None:
            ratio += f" [{row.least:.3f}-{row.most:.3f}]"
        goal = "" if row.goal is None else f"{'>=' if row.at_least else '<='} {row.goal:g}"
        met = {True: "met", False: "MISSED", None: "-" if row.goal is not None else ""}[row.met]
        limit = "" if row.limit is None else f"{row.limit:.2f}"
        lines.append((row.what, ratio, goal, met, limit, row.note))
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """The first line is the head."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    out = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    out.insert(1, "-" * max(map(len, out)))
    return "\n".join(out)
