"""Small pictures in text: bars of a histogram."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"


def spark(counts: Sequence[float]) -> str:
    """One character a count, as high as its share of the largest; a blank for zero: `▂█ ▁`."""
    largest = max(counts, default=0)
    if largest <= 0:
        return " " * len(counts)
    return "".join(_LEVELS[min(7, int(8 * count / largest))] if count > 0 else " " for count in counts)


def binned(pairs: Sequence[tuple[int, int]], bins: int = 12) -> list[tuple[str, int]]:
    """(value, count) pairs -> (label, count) of at most `bins` ranges of equal width, empty ones included."""
    if not pairs:
        return []
    low, high = min(value for value, _ in pairs), max(value for value, _ in pairs)
    width = max(1, -(-(high - low + 1) // bins))
    starts = range(low, high + 1, width)
    totals = [0] * len(starts)
    for value, count in pairs:
        totals[(value - low) // width] += count
    return [
        (f"{start}" if width == 1 else f"{start}–{min(start + width - 1, high)}", total)
        for start, total in zip(starts, totals, strict=True)
    ]
