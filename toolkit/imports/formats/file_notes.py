"""What is said of the files of an import, or of the tasks in them: what holds of several is said once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolkit.errors import counted

_NAMED = 2
"""Of three and more, as many are named."""


@dataclass(frozen=True)
class FileNote:
    """A sentence about `of`, a task or a file; about the import where that is empty.

    `count` of `what` are its subject, and are summed where several files say the same.
    """

    of: str
    text: str
    count: int = 0
    what: str = ""


def said_once(notes: Iterable[FileNote]) -> Iterator[str]:
    """A line for each sentence, in the order in which they first come."""
    alike: dict[tuple[str, str], list[FileNote]] = {}
    for note in notes:
        alike.setdefault((note.text, note.what), []).append(note)
    for (text, what), same in alike.items():
        subject = f"{counted(sum(note.count for note in same), what)} " if what else ""
        names = list(dict.fromkeys(note.of for note in same if note.of))
        yield f"{together(names)}: {subject}{text}" if names else f"{subject}{text}"


def together(names: Sequence[str]) -> str:
    """Names in a line, of many the first and how many there are beside them."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more"
