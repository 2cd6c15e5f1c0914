"""From a log to a verifier in it, and what that is worth: what the command does, as a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from replay.data.conditions import CONDITION
from replay.latent.adding import add_verifier
from replay.latent.fitting import FittedVerifier
from replay.latent.fitting import fit_verifier as fit
from replay.latent.verifier_settings import ONE, STATES, VerifierSettings
from toolkit.arguments import checks_arguments
from toolkit.errors import counted
from toolkit.log import Log, open_sealed
from toolkit.log.describe.worth import Worth
from toolkit.log.describe.worth_table import worth_of_log, worth_rows, worth_tables
from toolkit.printable import printable

if TYPE_CHECKING:
    from toolkit.show import Table

NAME, NAMES, PLACES = "a name", "a list of names", "a list of integers"


@dataclass(frozen=True, eq=False)
class VerifierReport:
    """A verifier that was added to a log, and what it is worth.

    `log`: with its scores. `worth`: of each data set and pool, and in words which examples that is of.
    """

    fitted: FittedVerifier
    log: Log
    worth: tuple[tuple[str, Worth], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """What has to be known of the fit, what it was made of, and what was added."""
        fitted, seconds = self.fitted, self.fitted.seconds
        places = f" at {counted(len(fitted.places), 'place')} of {fitted.states}" if fitted.states else ""
        inside = fitted.scores["fold"].is_not_null().sum()
        names = fitted.verifiers
        what = f"`{names[0]}`" if len(names) == 1 else counted(len(names), "verifier")
        return (
            *(str(told) for told in fitted.notes),
            f"trained on {counted(fitted.rows, 'row')}{places}, {counted(len(fitted.trained), 'example')}, "
            f"{fitted.right:.1%} of the rows right; {fitted.folds} folds; {seconds['training']:.1f} s, scoring "
            f"{seconds['scoring']:.1f} s",
            f"added {what} to {self.log.address}: {fitted.scores.height:,} scores, {inside:,} of them out of fold",
        )

    @property
    def rows(self) -> pl.DataFrame:
        """What every signal is worth: dataset, pool, signal, metric, estimate, low, high, n, p_value, remark."""
        return worth_rows(worth for _, worth in self.worth)

    def tables(self) -> Iterator[Table]:
        """For each data set and pool what every signal is worth, and the suffixes where they are logged."""
        for which, worth in self.worth:
            yield from worth_tables(worth, which)

    def _repr_html_(self) -> str:
        from toolkit.show.tables.html import paragraph

        return "".join([*map(paragraph, self.sentences), *(table.html() for table in self.tables())])

    def __repr__(self) -> str:
        return "\n".join(printable(sentence) for sentence in self.sentences)


@checks_arguments(
    log="the folder of a sealed log", train_on=CONDITION, name=NAME, inputs=NAMES, pools=NAMES, layers=PLACES,
    tokens=PLACES,
)  # fmt: skip
def fit_verifier(
    log: str | Path,
    train_on: str,
    *,
    name: str,
    model: str = "xgboost",
    inputs: Sequence[str] = (STATES,),
    states: str = "",
    layers: Sequence[int] = (),
    tokens: Sequence[int] = (),
    places: str = ONE,
    aggregate: str = "mean",
    pools: Sequence[str] = (),
    folds: int = 5,
    depth: int = 5,
    eta: float = 0.1,
    rounds: int = 30,
    seed: int = 0,
) -> VerifierReport:
    """Fit a verifier on the examples of the SQL condition `train_on`, add its scores to the log, and tell their worth.

    The log is a sealed one in a folder, and sealed again. Questions that were trained on are scored by models of other
    folds alone. ThinkbackError, and the log as it was, where it lacks what is read, has a verifier of that name, or
    what is trained on is of one class.
    """
    settings = VerifierSettings(
        name=name, model=model, inputs=tuple(inputs), states=states, layers=tuple(layers), tokens=tuple(tokens),
        places=places, aggregate=aggregate, pools=tuple(pools), folds=folds, depth=depth, eta=eta, rounds=rounds,
        seed=seed,
    )  # fmt: skip
    fitted = fit(open_sealed(log), train_on, settings)
    extended = add_verifier(log, fitted)
    worth = worth_of_log(extended, fitted.trained, fitted.verifiers, fitted.pools)
    return VerifierReport(fitted, extended, tuple(worth))
