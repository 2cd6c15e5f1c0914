"""Numbers that remember how a file wrote them."""

from __future__ import annotations


class LiteralFloat(float):
    """A float with the text that it was read from, for parsers that take a `parse_float`."""

    text: str

    def __new__(cls, text: str) -> LiteralFloat:
        """The float that `text` spells."""
        number = super().__new__(cls, text)
        number.text = text
        return number
