"""Which models answer a log: kept beside the journal from the first call on, so that no other goes on with it.

The recipe names a model, and another one may lie under that name on another day. So what an engine and an encoder say
of themselves is kept in `LOG/.generate/models.json`, and compared whenever one is opened: weights by their hash,
folders by their name. It is also what the manifest tells, with all that servers reported in all runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from generate.engines.base import Engine
from generate.journal.store import Journal
from generate.passes.embedding import Embedder
from toolkit.errors import ThinkbackError

MODELS = "models.json"
ENGINE, EMBEDDING = "engine", "embedding"
DECIDING = ("model", "revision", "weights_sha256", "sha256", "pooling", "max_tokens", "dtype", "device", "context")
"""What decides which answers and seconds come back; versions and batch sizes may change between two runs."""
GROWING = ("reported_models", "system_fingerprints")
"""What a server says of itself, answer by answer: of all runs together."""


class Models:
    """The models of one log, by what they are for: what is known of them from before, and of those that are open."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: dict[str, dict[str, Any]] = {}
        self.settled: set[str] = set()
        path = journal.folder / MODELS
        try:
            if path.exists() and journal.size():
                self.known = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ThinkbackError(f"`{path}` can't be read: {error}") from None

    def settle(self, what: str, model: Engine | Embedder) -> None:
        """Keep what a model says of itself, which is asked once, but again of what tells more with each answer.
        ThinkbackError where another one answered before."""
        if what in self.settled and not any(key in self.known[what] for key in GROWING):
            return
        now: dict[str, Any] = dict(model.describe())
        if what == ENGINE:
            now = {"name": model.name, "model": model.model, **now}  # type: ignore[union-attr]
        before = self.known.get(what)
        if before is not None:
            self._compare(what, now, before)
            now |= {key: sorted({*before.get(key, ()), *now[key]}) for key in GROWING if key in now}
        self.settled.add(what)
        if now != before:
            self.known[what] = now
            self.journal.keep(MODELS, self.known)

    def _compare(self, what: str, now: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        for key in DECIDING:
            if key in before and now.get(key) != before[key]:
                raise ThinkbackError(
                    f"`{self.journal.out}` was begun with another model: the {what}'s `{key}` is {_shown(before[key])}"
                    f" there and {_shown(now.get(key))} here; name another --out"
                )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 20 else f'{text[:16]}…"'
