"""One rounding of numbers for tables, sentences, figures and pages: halves away from zero, by the decimal number.

0.7035 is a little less in binary, so that Python writes 70.3 of 70.35 and a browser 70.4. Here a number is first taken
to twelve significant digits, which is what it would be without the errors of binary sums; then halves go away from
zero. `assets/rounding.js` of the dashboard does the same.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal

_DIGITS = Context(prec=12)
_ROOM = Context(prec=400, rounding=ROUND_HALF_UP)  # for every finite float


def rounded_text(value: float, decimals: int = 0, *, signed: bool = False, grouped: bool = True) -> str:
    """The number with so many decimals, a minus sign that is none of a hyphen, and thousands separators if `grouped`.

    `signed` puts a plus before what is above zero. What rounds to zero has no sign; NaN and infinity are written as
    Python does.
    """
    if not math.isfinite(value):
        return format(value, "+f" if signed else "f").replace("-", "−")
    step = Decimal(1).scaleb(-decimals)
    rounded = _DIGITS.create_decimal_from_float(float(value)).quantize(step, context=_ROOM)
    number = format(abs(rounded), f"{',' if grouped else ''}.{max(decimals, 0)}f")
    sign = "" if not rounded else "−" if rounded < 0 else "+" * signed
    return sign + number
