"""Damage to bytes, to JSON, and to files as such. Each kind says what it did, in one word or two."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOOTER = 8
"""The last bytes of a Parquet file: the length of its footer and `PAR1`."""


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[_place(rng, data)] ^= 1 << rng.randrange(8)


def _overwrite(rng: random.Random, data: bytearray) -> None:
    place, length = _place(rng, data), rng.choice((1, 4, 16, 64))
    data[place : place + length] = rng.choice((b"\0", b"\xff", rng.randbytes(1))) * min(length, len(data) - place)


def _truncate(rng: random.Random, data: bytearray) -> None:
    del data[_place(rng, data) :]


def _insert(rng: random.Random, data: bytearray) -> None:
    place = _place(rng, data)
    data[place:place] = rng.randbytes(rng.choice((1, 3, 64, 4096)))


def _remove(rng: random.Random, data: bytearray) -> None:
    place = _place(rng, data)
    del data[place : place + rng.choice((1, 3, 64))]


def _swap(rng: random.Random, data: bytearray) -> None:
    length = rng.choice((8, 64, 256))
    first, second = sorted((_place(rng, data), _place(rng, data)))
    if first + length <= second <= len(data) - length:
        kept = bytes(data[first : first + length])
        data[first : first + length] = data[second : second + length]
        data[second : second + length] = kept


def _place(rng: random.Random, data: bytearray) -> int:
    """A place in a file, in a quarter of the cases within its footer."""
    length = int.from_bytes(data[-FOOTER:-4], "little") if data[-4:] == b"PAR1" else 0
    if rng.random() < 0.25 and 0 < length < len(data) - FOOTER:
        return rng.randrange(len(data) - length - FOOTER, len(data))
    return rng.randrange(len(data))


BYTES: dict[str, Callable[[random.Random, bytearray], None]] = {
    "flipped": _flip, "overwritten": _overwrite, "truncated": _truncate, "inserted": _insert, "removed": _remove,
    "swapped": _swap,
}  # fmt: skip


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Other bytes, of at least one."""
    made = bytearray(data)
    while bytes(made) == data:
        BYTES[rng.choice(list(BYTES))](rng, made)
        if not made:
            return b""
    return bytes(made)


def replaced(rng: random.Random, path: Path) -> str:
    """Put something else in the place of a file; say what."""
    what = rng.choice(("folder", "pipe", "empty", "link to nothing", "link to itself", "link", "absent", "device"))
    if what == "link":
        shutil.move(path, path.parents[1] / ".elsewhere")
        path.symlink_to(path.parents[1] / ".elsewhere")
        return what
    path.unlink()
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "empty":
        path.touch()
    elif what == "link to nothing":
        path.symlink_to("nowhere")
    elif what == "link to itself":
        path.symlink_to(path.name)
    elif what == "device":
        path.symlink_to("/dev/zero")
    return what


ODD: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: 0, lambda: -1, lambda: 1, lambda: 2**31, lambda: 2**63, lambda: 2**70,
    lambda: 10**4000, lambda: 0.5, lambda: 1e308, lambda: float("nan"), lambda: float("inf"), lambda: "", lambda: "x",
    lambda: "\x1b[2J\u202e", lambda: "\0", lambda: "x" * 5000, lambda: "../up", lambda: "/etc/passwd", list,
    dict, lambda: [1], lambda: {"a": 1}, lambda: [[]] * 3, lambda: "a`b`" * 50, lambda: "\ud800",
)  # fmt: skip
"""Values that stand where others belong."""


def damaged_json(rng: random.Random, text: str) -> tuple[str, str]:
    """(another JSON text or something near to one, what was done)."""
    content = json.loads(text)
    how = rng.choice(("value", "value", "value", "missing", "key", "twice", "deep", "bytes", "top", "nan"))
    if how in ("value", "missing", "key"):
        for _ in range(rng.choice((1, 1, 1, 3))):
            _change(rng, content, how)
        return json.dumps(content), how
    if how == "twice":
        key = rng.choice(list(content))
        return text.rstrip()[:-1] + f', "{key}": {json.dumps(rng.choice(ODD)())}}}', how
    if how == "deep":
        depth = rng.choice((50, 900, 5000, 100_000))
        signs = rng.choice((("[", "]"), ('{"a":', "}")))
        deep = signs[0] * depth + "1" + signs[1] * depth
        key = rng.choice(list(content))
        return text.replace(f'"{key}":', f'"{key}": {deep}, "{key} was":', 1), how
    if how == "nan":
        return text.replace(rng.choice(("1", '"')), rng.choice(("NaN", "-Infinity")), 1), how
    if how == "top":
        return json.dumps(rng.choice(ODD)()), how
    return damaged(rng, text.encode()).decode("utf-8", "surrogateescape"), how


def _change(rng: random.Random, content: Any, how: str) -> None:
    """Change one of all places of nested maps and lists."""
    places = list(_places(content))
    if not places:
        return
    holder, key = rng.choice(places)
    if how == "missing":
        del holder[key]
    elif how == "key" and isinstance(holder, dict):
        holder[str(rng.choice(ODD)())[:300]] = holder.pop(key)
    else:
        holder[key] = copy.copy(rng.choice(ODD)()) if rng.random() < 0.8 else copy.deepcopy(rng.choice(places)[0])


def _places(content: Any) -> Any:
    keys = content.keys() if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys):
        yield content, key
        yield from _places(content[key])
