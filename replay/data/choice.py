"""What is chosen on some examples and reported on others: one record for tuning, fronts, gates and studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.settings import setting


@dataclass(frozen=True)
class UsedRows:
    """A record of the examples that something is fitted on, chosen on or reported on.

    `where`: the condition that names them, None where none does. `examples`: how many they are; `repairs`: of these,
    the mean over rollouts of those that an action repairs. `log` and `sha256` are of the log that they stand in, `ids`
    and `questions` their hashes in order: by them other logs are held against what was seen.
    """

    where: str | None = setting(None)
    examples: int = setting(0, low=0)
    repairs: float = setting(0.0, low=0)
    log: str | None = setting(None)
    sha256: str | None = setting(None)
    ids: tuple[str, ...] = setting(())
    questions: tuple[str, ...] = setting(())

    def record(self) -> dict[str, Any]:
        """The record as plain data, as a gate file holds it."""
        log = {"log": self.log} | ({} if self.sha256 is None else {"sha256": self.sha256})
        counts = {"where": self.where, "examples": self.examples, "repairs": self.repairs}
        return log | counts | {"ids": list(self.ids), "questions": list(self.questions)}


@dataclass(frozen=True)
class Choice:
    """A choice: the examples that it was made on, and the others that it is reported on.

    `chosen`: the examples that a setting, a threshold or an action is chosen on, of `tried` ones; `best` is its name.
    `reported`: the others, none where they are not known yet. `fitted`: those that a model was fitted on before, None
    where none was. `folds`: of the examples fitted on, which then are those chosen on, by scores out of fold.
    """

    chosen: UsedRows
    reported: UsedRows = UsedRows()
    fitted: UsedRows | None = None
    best: str | None = None
    tried: int = 1
    folds: int | None = None

    def record(self) -> dict[str, Any]:
        """The examples that were seen, as plain data of a gate file."""
        fitted = self.fitted or UsedRows()
        return {"fitted_on": fitted.record(), "tuned_on": self.chosen.record() | {"folds": self.folds}}

    @property
    def fitted_on_condition(self) -> str | None:
        """The SQL condition of the examples that a model was fitted on; None where no model was."""
        return None if self.fitted is None else self.fitted.where

    @property
    def seen_questions(self) -> frozenset[str]:
        """Hashes of the questions of all examples that something was fitted or chosen on."""
        return frozenset(question for rows in (self.fitted, self.chosen) if rows for question in rows.questions)
