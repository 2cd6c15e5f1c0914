"""The accuracy of the standard suite on a log that grows, with intervals that hold at every look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from replay.runs.passes.coverage import SUITE
from replay.runs.result.run import run
from toolkit.log import AnyLog, collect, open_log
from toolkit.stats.limits.confidence_sequences import mean_confidence_sequence

RESAMPLES = 20
"""Bootstrap draws of a look, whose intervals nobody sees: they would not hold at every look."""
ORDER = {"policy": pl.String, "example_id": pl.String}
TOKENS = ("total_tokens", "completion_tokens")


@dataclass(frozen=True)
class PolicyAccuracy:
    """A policy's accuracy on the `counted` examples of a data set, with its limits, fractions; its mean tokens.

    Limits are None where examples come in clusters, and where the accuracy lies outside of them: then questions come in
    an order, such as easy ones first. Tokens are None where they are not logged.
    """

    dataset: str
    policy: str
    counted: int
    accuracy: float
    low: float | None
    high: float | None
    tokens: float | None
    diagnostic: bool


@dataclass(frozen=True)
class AccuracyLook:
    """One look at a log: how many examples it has, and the accuracies, of each data set the best first.

    `level`: how often the limits of one policy on one data set hold at all looks; `notes`: what the suite leaves out.
    """

    examples: int
    level: float
    policies: tuple[PolicyAccuracy, ...]
    clustered: bool
    notes: tuple[str, ...]


@dataclass
class AccuracyFollower:
    """Looks at a log again and again. Examples of a policy are in the order in which they were first counted, so that
    what was counted at one look begins what is counted at the next, though questions are completed in any order.

    `order`: the examples of each policy that were counted at earlier looks, in their order.
    """

    level: float = 0.95
    order: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=ORDER))

    def look(self, log: AnyLog) -> AccuracyLook:
        """The accuracies on the examples whose rows are complete. ThinkbackError where nothing can be replayed yet."""
        opened = open_log(log)
        columns = collect(opened.scan("examples", ["example_id", "dataset"]), opened)
        result = run(opened, resamples=RESAMPLES)
        clustered = bool(result.examples["cluster"].is_not_null().any())
        spent = [name for name in TOKENS if name in result.outcomes.collect_schema()]
        outcomes = collect(
            result.outcomes.select("policy", "example_id", "correct", *spent).drop_nulls("correct"), opened
        )
        outcomes = columns.join(
            outcomes.with_columns(pl.col("policy").cast(pl.String)), on="example_id", maintain_order="left"
        )
        late = outcomes.select(*ORDER).join(self.order, on=[*ORDER], how="anti", maintain_order="left")
        self.order = pl.concat([self.order, late])
        outcomes = self.order.join(outcomes, on=[*ORDER], maintain_order="left")
        diagnostic = {policy.name: bool(policy.diagnostic) for policy in result.policies}
        rows = [
            self._accuracy(str(dataset), str(name), part, diagnostic[str(name)], clustered)
            for (dataset, name), part in outcomes.partition_by("dataset", "policy", as_dict=True).items()
        ]
        rows.sort(key=lambda row: (row.dataset, row.diagnostic, -row.accuracy))
        notes = tuple(str(note) for note in result.notes if note.code == SUITE)
        return AccuracyLook(len(columns), self.level, tuple(rows), clustered, notes)

    def _accuracy(
        self, dataset: str, policy: str, rows: pl.DataFrame, diagnostic: bool, clustered: bool
    ) -> PolicyAccuracy:
        values = np.clip(rows["correct"].cast(pl.Float64).to_numpy(), 0, 1)
        mean = float(values.mean())
        low, high = (float(limit[0]) for limit in mean_confidence_sequence(values, self.level))
        known = [rows[name].mean() for name in TOKENS if name in rows and rows[name].null_count() == 0]
        tokens = float(known[0]) if known else None  # type: ignore[arg-type]
        holds = low <= mean <= high and not clustered
        limits = {"low": low if holds else None, "high": high if holds else None}
        return PolicyAccuracy(dataset, policy, len(values), mean, **limits, tokens=tokens, diagnostic=diagnostic)
