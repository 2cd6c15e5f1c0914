"""Where rows lie in JSON: the mapping's `records`, a path to a list of objects, or to an object that holds them by key.

Under a list every object is a row. Under an object whose values are objects, or lists of them, so is each of these; its
key is the column `record_key`. What stands around them is the column `document`, of which only what is asked for is
kept. `records = "."` is the document itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolkit.imports.files.paths import walk

WHOLE = "."
KEY, AROUND = "record_key", "document"


@dataclass(frozen=True)
class Records:
    """`around`: the fields of the document that become fields of the column `document`."""

    path: str
    around: tuple[str, ...] = ()

    def of(self, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows of each document. ValueError where one holds none under the path."""
        for number, document in enumerate(documents, 1):
            found = document if self.path == WHOLE else walk(document, self.path)
            if not isinstance(found, dict | list):
                raise ValueError(f"document {number} has no list and no object under `{self.path}` (`records`)")
            outer = {name: document.get(name) for name in self.around}
            extra = {AROUND: outer} if self.around else {}
            for row in _rows(found, {}):
                if not isinstance(row, dict):
                    raise ValueError(f"document {number} holds what is no object under `{self.path}` (`records`)")
                yield {**extra, **row}


def _rows(found: Any, key: dict[str, str]) -> Iterator[Any]:
    """The objects under a path, with the key under which each lies."""
    if isinstance(found, list):
        for one in found:
            yield {**key, **one} if isinstance(one, dict) else one
    elif not key and found and all(isinstance(one, dict | list) for one in found.values()):
        for name, one in found.items():
            yield from _rows(one, {KEY: name})
    else:
        yield {**key, **found}
