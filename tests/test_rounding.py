"""The one rounding: halves go away from zero by the decimal number, where binary numbers lie below or above."""

from __future__ import annotations

import pytest

from toolkit.rounding import rounded_text
from toolkit.show import IntervalCell, Number, NumberWithInterval


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (70.35, 1, "70.4"),  # 70.3499999… in binary
        (70.15, 1, "70.2"),
        (100 * 0.7035, 1, "70.4"),
        (0.1 + 0.2 - 0.05, 1, "0.3"),  # 0.25000000000000006, which is a quarter
        (-0.05, 1, "−0.1"),
        (-0.04, 1, "0.0"),
        (2.5, 0, "3"),
        (1234567.891, 2, "1,234,567.89"),
        (9.9949999, 2, "9.99"),
        (float("nan"), 1, "nan"),
    ],
)
def test_halves_go_away_from_zero(value: float, decimals: int, text: str) -> None:
    assert rounded_text(value, decimals) == text


def test_every_share_of_two_thousand_rounds_as_whole_numbers_do() -> None:
    """k of 2,000 is k / 2 tenths of a per cent, whose half goes up: (k + 1) // 2 tenths."""
    cells = Number(1, 100.0)
    for count in range(2_001):
        tenths = (count + 1) // 2
        assert cells.show(count / 2_000) == f"{tenths // 10}.{tenths % 10}"
    assert NumberWithInterval(1, 100.0, signed=True).show(IntervalCell(0.0025, -0.0025, 0.0535)) == (
        "+0.3 [−0.3, +5.4]"
    )
