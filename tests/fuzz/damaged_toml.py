"""Mutated TOML: other values where some stand, lines that come twice or go, and damage to the bytes."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.fuzz.damage import damaged

_VALUE = re.compile(r"""^(\s*[\w.'"-]+\s*=\s*)(.+)$""", re.MULTILINE)
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|\b\d[\d_.]*\b|\btrue\b|\bfalse\b|[\w-]+(?=\s*=)')

VALUES: tuple[str, ...] = (
    "0", "-1", "1", "2", "true", "false", "nan", "inf", "-inf", "0.5", "-0.0", "1e308", "1e-320", "1e400", "9" * 5000,
    "0x" + "f" * 5000, "9223372036854775807", "9223372036854775808", "1000000000000", "2147483648", '""', '"a"',
    "'''\n'''", '" "', '"\\u0000"', '"\\u001b[2J\\u001b]0;t\\u0007"', '"\\u202e\\u2066"', '"\\ue000x\\ue001"',
    '"a`b`c"', "[]", "[[]]", "{}", "[1]", '["a"]', "{ a = 1 }", '[1, "a", true]', "[" * 900 + "]" * 900,
    "{ a = " * 400 + "1" + " }" * 400, "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", '"' + "x" * 3000 + '"',
    '"' + "`x" * 3000 + '"', "[" + ", ".join(f"0.{i}" for i in range(300)) + "]", "[" + "1, " * 30_000 + "1]",
    '["' + "y" * 4000 + '"]', '"(a+)+$"', '"[a-z"', '"../../etc/passwd"', '"/dev/zero"', '"/"', '"~"', '"${HOME}"',
    '"a; DROP TABLE x"', '"x IS NOT NULL OR 1"', '"CAST(a AS INT)"', '"(" ', '"1/0"', '"\\\\frac{1}{0}"', '"e" , ',
    "[ 1", "# nothing", "{ rule = 1 }", '{ rule = "budget" }', '{ rule = ["margin", 3] }', "[true, false]",
    "[[1, 2], [3]]", '[["a"], 1]',
)  # fmt: skip
"""What is put in the place of a value: other kinds, bounds, floods, texts that act."""


NUMBERS = (
    "0", "1", "2", "3", "16", "-1", "300", "9223372036854775807", "0.0", "0.5", "1.0", "1e-300", "1e300", "-0.0",
    "[0, 1, 2]", "[0.1, 0.9]", "[" + ", ".join(f"0.{i}" for i in range(100, 200)) + "]",
)  # fmt: skip


def _other_value(rng: random.Random, text: str) -> str:
    found = list(_VALUE.finditer(text))
    if not found:
        return text + "\nx = " + rng.choice(VALUES)
    one = rng.choice(found)
    return text[: one.start(2)] + rng.choice(VALUES) + text[one.end(2) :]


def _other_token(rng: random.Random, text: str) -> str:
    found = list(_TOKEN.finditer(text))
    if not found:
        return text
    one, other = rng.choice(found), rng.choice(found)
    put = other[0] if rng.random() < 0.5 else rng.choice(VALUES)
    return text[: one.start()] + put + text[one.end() :]


def _lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines()
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.choice(("gone", "twice", "swapped", "moved", "table"))
    if how == "gone":
        del lines[first]
    elif how == "twice":
        lines.insert(second, lines[first])
    elif how == "swapped":
        lines[first], lines[second] = lines[second], lines[first]
    elif how == "moved":
        lines.insert(second, lines.pop(first))
    else:
        heads = [number for number, line in enumerate(lines) if line.startswith("[")]
        if heads:
            at = rng.choice(heads)
            name = lines[at].strip("[] ") or "a"
            lines[at] = rng.choice((f"[{name}]", f"[[{name}]]", f"[{name}.{name}]", "[x]", f"[{name}", f"{name} = 1"))
    return "\n".join(lines) + "\n"


def _further_key(rng: random.Random, text: str) -> str:
    key = rng.choice(('"\\u001b[2J"', '"a`b"', "x" * 2000, '""', "kind", "name", "of", "stop", "where", "'a.b'"))
    lines = text.splitlines()
    lines.insert(rng.randrange(len(lines) + 1), f"{key} = {rng.choice(VALUES)}")
    return "\n".join(lines) + "\n"


_KINDS: tuple[Callable[[random.Random, str], str], ...] = (
    _other_value, _other_value, _other_value, _other_token, _other_token, _lines, _further_key,
)  # fmt: skip


def altered_toml(rng: random.Random, text: str) -> bytes:
    """Another file that is most often still read: a number in the place of another, or a word of the same file."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        words = rng.random() < 0.3
        found = [one for one in _TOKEN.finditer(text) if words or one[0][0].isdigit()]
        if found:
            one, other = rng.choice(found), rng.choice(found)
            put = other[0] if words else rng.choice(NUMBERS)
            text = text[: one.start()] + put + text[one.end() :]
    return text.encode()


def damaged_toml(rng: random.Random, text: str) -> bytes:
    """Another file, most often still TOML."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice(_KINDS)(rng, text)
    data = text.encode()
    how = rng.random()
    if how < 0.12:
        return damaged(rng, data)
    if how < 0.16:
        return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\0")) + data
    return data.replace(b"\n", b"\r\n") if how < 0.2 else data
