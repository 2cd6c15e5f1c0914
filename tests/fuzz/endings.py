"""What holds for every ending: one short harmless line and exit code 2, or exit code 0 and nothing said on stderr; what
was read is unchanged, nothing is left behind.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fuzz.commands import Ran
from toolkit.printable import printable

MOST_MEMORY = 2 * 2**30
LONGEST = 620
"""Characters of a line that says what is wrong."""
SIMULATED = "Simulated log: these numbers describe a model, not a system."

State = dict[str, tuple[str, str]]


def faults(ran: Ran, lines: int = 1) -> Iterator[str]:
    """What is wrong with the way in which a command ended. At most so many lines may say why it was refused."""
    if ran.hung:
        yield f"{ran.told}: hangs, ended after {ran.seconds:.0f} s"
    elif ran.memory > MOST_MEMORY:
        yield f"{ran.told}: took {ran.memory / 2**30:.1f} GiB of memory"
    elif ran.code < 0:
        yield f"{ran.told}: ended by signal {-ran.code}"
    elif "Traceback (most recent call last)" in ran.err or "panicked at" in ran.err:
        last = next((line for line in reversed(ran.err.splitlines()) if line.strip()), "")
        yield f"{ran.told}: traceback, {last[:200]!r}"
    elif ran.code not in (0, 2):
        yield f"{ran.told}: exit code {ran.code}"
    else:
        yield from _said(ran, lines)


def _said(ran: Ran, lines: int) -> Iterator[str]:
    said = [line for line in ran.err.split("\n") if line not in ("", SIMULATED) and not line.startswith("note: ")]
    if ran.code == 2 and lines == 1 and not all(line.startswith("error: ") for line in said):
        yield f"{ran.told}: {said[0][:200]!r} on stderr, which is no error"
    if ran.code == 0 and said:
        yield f"{ran.told}: exit code 0 and on stderr {said[0][:200]!r}"
    elif ran.code == 2 and not 1 <= len(said) <= lines:
        yield f"{ran.told}: {len(said)} lines on stderr"
    for line in said:
        if len(line) > LONGEST:
            yield f"{ran.told}: a line of {len(line):,} characters, {line[:200]!r}"
    yield from (f"{ran.told}: {fault}" for fault in not_harmless(ran.err))


def not_harmless(text: str) -> Iterator[str]:
    """The first line of a text that steers a terminal or hides something."""
    for line in text.split("\n"):
        if line != printable(line):
            yield f"raw control or bidi characters in {printable(line)[:200]!r}"
            return


def state(folder: Path, without: Iterable[str] = ()) -> State:
    """What lies in a folder, by path: its kind and a digest of its content. Names at the top may be left out."""
    left_out, found = set(without), {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.partition("/")[0] not in left_out:
            found[name] = _one(path)
    return found


def _one(path: Path) -> tuple[str, str]:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "link", str(path.readlink())
    if stat.S_ISREG(mode):
        return "file", hashlib.sha256(path.read_bytes()).hexdigest()
    return ("folder" if stat.S_ISDIR(mode) else "special"), ""


def changes(before: State, after: State, folder: str = "") -> Iterator[str]:
    """What was changed, removed or left behind."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            how = "left behind" if name not in before else "removed" if name not in after else "changed"
            yield f"`{folder}{name}` was {how}"
            return
