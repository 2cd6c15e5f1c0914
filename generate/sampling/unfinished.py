"""Sealing an unfinished run as it is: what was not answered is left out, and nothing is asked any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from generate.engines.base import Call, CallFailure, Outcome
from generate.journal.database import FOLDER, Journal
from generate.sampling.provenance import ENGINE, MADE_OF, MODELS
from generate.sampling.sampling_plan import plan_again
from generate.sampling.sampling_run import Generated, generate
from toolkit.errors import ThinkbackError, argument

UNANSWERED = "unanswered"
"""The cause of failures of calls that no run had an answer to."""


def is_unfinished(out: Path) -> bool:
    """Whether a folder is that of a run that goes on with the same command."""
    return (out / FOLDER).is_dir() and not (out / "manifest.json").exists()


def seal_unfinished(out: Path) -> Generated:
    """Seal an unfinished run of a recipe without what was not answered.

    ThinkbackError where it has no traces, or its recipe is gone or says something else now.
    """
    with Journal(out) as journal:
        made_of, models = journal.kept(MADE_OF), journal.kept(MODELS)
    if not made_of or ENGINE not in models:
        raise ThinkbackError(
            f"`{out}` is an unfinished run that {'has no answer yet' if made_of else 'does not know its recipe'}: run"
            f" the recipe again, with {argument('with_failures')}"
        )
    return generate(plan_again(made_of), out, lambda _: _NotAsked(models[ENGINE]), with_failures=True)


class _NotAsked:
    """The engine of a run whose calls are not asked; what it says of itself is what the run's engine said."""

    def __init__(self, known: Mapping[str, Any]):
        self.name, self.model, self.known = str(known["name"]), str(known["model"]), known

    def describe(self) -> dict[str, object]:
        """As the journal has it."""
        return dict(self.known)

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """No call has an answer."""
        for call in calls:
            yield call, CallFailure("no run had an answer", retryable=False, cause=UNANSWERED)

    def close(self) -> None:
        """Nothing is held."""
