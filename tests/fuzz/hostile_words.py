"""Texts that steer a terminal, hide, forge lines, run in spreadsheets, or are commands of LaTeX, Markdown and HTML."""

from __future__ import annotations

import json
import random

PIECES: tuple[str, ...] = (
    "\x1b[2J", "\x1b]0;title\x07", "\x9b1m", "\x00", "\x7f", "\b\b", "\r", "\n", "\r\n", "\t", "\x85", "\u2028",
    "\u202e", "\u2066", "\u200b", "\u200f", "\ufeff", "\u00ad", "\u115f", "\ufe0f", "\U000e0041", "\ue000", "\ue001",
    "\U0010ffff", "=", "+", "-", "@", "＝", "=cmd|' /C calc'!A1", '=HYPERLINK("http://x","y")', "+1|x", "-2+3",
    "@SUM(A1)", "'", "''", "\\input{/etc/passwd}", "\\write18{id}", "\\", "\\\\", "\\end{tabular}", "{", "}", "$", "$$",
    "$\\frac{", "%", "&", "#", "_", "^", "~", "<script>alert(1)</script>", "<img src=x onerror=y>", "</td>", "&amp;",
    "&lt;", "<!--", "[a](http://x)", "![a](http://x)", "](", "|", "||", "`", "```", "**", "__", "# ", "- ", "> ", "1. ",
    "---", "http://x.y", ",", ";", '"', '""', " ", "  ", "\u00a0", "Café", "模型", "العربية", "😀", "−3.2", "1,000",
    "5 %", "nan", "null", "None", "a", "b", "x" * 90,
)  # fmt: skip


def hostile(rng: random.Random) -> str:
    """A text of one to five pieces, which is not blank."""
    made = ""
    while not made.strip():
        made = "".join(rng.choice(PIECES) for _ in range(rng.choice((1, 1, 2, 3, 5))))
    return made


def different(rng: random.Random, count: int) -> list[str]:
    """So many texts, no two of which are equal without the white space around them."""
    made: dict[str, str] = {}
    while len(made) < count:
        text = hostile(rng)
        made.setdefault(text.strip(), text)
    return list(made.values())


def in_toml(text: str) -> str:
    """A text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
