"""Which models answer a log: kept beside the journal from the first call on, so that no other goes on with it.

The recipe names a model, and another one may lie under that name on another day. So what an engine and an encoder say
of themselves is kept in the journal, and compared whenever one is opened: weights by their hash,
folders by their name. It is also what the manifest tells, with all that servers reported in all runs.
"""

from __future__ import annotations

from typing import Any

from generate.engines.base import Engine
from generate.journal.begun import difference
from generate.journal.database import Journal
from generate.passes.embedding import Embedder
from toolkit.errors import ThinkbackError

MODELS = "models"
ENGINE, EMBEDDING = "engine", "embedding"
DECIDING = ("model", "revision", "weights_sha256", "sha256", "pooling", "max_tokens", "dtype", "device", "context")
"""What decides which answers and seconds come back; versions and batch sizes may change between two runs."""
GROWING = ("reported_models", "system_fingerprints")
"""What a server says of itself, answer by answer: of all runs together."""


class ModelsSeen:
    """The models of one log, by what they are for: what is known of them from before, and of those that are open."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: dict[str, dict[str, Any]] = {} if journal.empty() else journal.kept(MODELS)
        self.settled: set[str] = set()

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
            differs = difference(before, now, [key for key in DECIDING if key in before], most=18)
            if differs is not None:
                raise ThinkbackError(
                    f"`{self.journal.out}` was begun with another model: the {what}'s {differs}; name another `out`"
                )
            now |= {key: sorted({*before.get(key, ()), *now[key]}) for key in GROWING if key in now}
        self.settled.add(what)
        if now != before:
            self.known[what] = now
            self.journal.keep(MODELS, self.known)
