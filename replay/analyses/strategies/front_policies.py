"""The settings of a front as a policy file, to be replayed with their costs, fixes and flips."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay.analyses.strategies.frontier import ENSEMBLE, Frontier
from replay.analyses.strategies.strategies import (
    BEST,
    BY_SCORE,
    CONDITIONAL,
    CORRECTED,
    CORRECTED_WHEN,
    MAJORITY,
    PROBE,
    WEIGHTED,
    Source,
)
from replay.policies.suite import as_toml

Table = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One row of a front, and what was read of the log."""

    row: Mapping[str, Any]
    source: Source

    @property
    def verifier(self) -> Table:
        """Its verifier as a key."""
        return {"verifier": self.row["verifier"]}

    @property
    def numbers(self) -> list[tuple[float, int]]:
        """Its thresholds with their numbers of samples."""
        return list(zip(self.row["below"] or [], self.row["votes"] or [], strict=True))

    def sample(self, traces: int, **more: Any) -> Table:
        """Samples of the pool, in as many orders."""
        drawn = {"pool": self.source.pool, "max_traces": traces, "orders": self.source.orders, "seed": self.source.seed}
        return {"kind": "sample", **drawn, **more}

    def probe(self) -> Table:
        """The probe as it is."""
        return {"kind": "sample", "pool": self.source.probe, "max_traces": 1, "select": "first"}

    def act(self) -> Table:
        """The probe's revision."""
        return {"kind": "act", "action": self.source.action, "base": self.source.probe}

    def when(self, then: Table) -> Table:
        """The probe, and something else below the threshold."""
        gate = {**self.verifier, "below": self.numbers[0][0]}
        return {"kind": "when", "base": self.probe(), "gate": gate, "then": then}

    def graded(self) -> Table:
        """The probe, and numbers of votes by its score; the probe alone where all are believed."""
        if not self.numbers:
            return self.probe()
        below, votes = (list(part) for part in zip(*self.numbers, strict=True))
        then = self.sample(int(votes[0]), select="majority")
        return {
            "kind": "graded",
            "base": self.probe(),
            **self.verifier,
            "thresholds": below,
            "votes": votes,
            "then": then,
        }


MADE: Mapping[str, Callable[[Setting], Table]] = {
    MAJORITY: lambda one: one.sample(one.row["n"], select="majority"),
    WEIGHTED: lambda one: one.sample(one.row["n"], **one.verifier, select="weighted"),
    BEST: lambda one: one.sample(one.row["n"], **one.verifier, select="best"),
    PROBE: Setting.probe,
    CONDITIONAL: lambda one: one.when(one.sample(one.numbers[0][1], select="majority")),
    BY_SCORE: Setting.graded,
    CORRECTED: Setting.act,
    CORRECTED_WHEN: lambda one: one.when(one.act()),
}
"""Policies of strategies; the oracle, which sees gold, has no setting to choose."""


def front_policies(found: Frontier) -> str:
    """A policy file of the settings of a front, without the oracle and the ensemble, which no log has a score of."""
    head = "# Settings of `thinkback frontier`, chosen on one half of the examples."
    return "\n\n".join([head, *map(as_toml, _tables(found))]) + "\n"


def _tables(found: Frontier) -> Iterator[Table]:
    for row in found.front.iter_rows(named=True):
        one = Setting(row, found.source)
        if row["strategy"] in MADE and row["verifier"] != ENSEMBLE:
            numbers = row["n"] or ", ".join(f"{votes} below {below!r}" for below, votes in one.numbers)
            parts = (row["strategy"], row["verifier"], str(numbers))
            yield {"name": ", ".join(part for part in parts if part), **MADE[row["strategy"]](one)}
