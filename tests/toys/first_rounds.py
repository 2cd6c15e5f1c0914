"""A kind of policy on another table than traces: the first rounds of a retrieval, and whether they show a gold one."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.contents import Contents
from replay.data.needs import Needs, needs_of_rows
from replay.engine.calls import PolicyPath, path_of_rows
from replay.engine.costs import RowCalls
from replay.engine.outcome import CAP
from replay.policies.base import Evaluator, Policy, policy_errors
from toolkit.columns import OutcomeColumn, find
from toolkit.settings import setting

GOLD_SEEN = OutcomeColumn("gold_seen", unit="share", share=True, rate=True, quality=True, judges=True, header="gold")


@dataclass(frozen=True, kw_only=True)
class FirstRounds(Policy, kind="first rounds", answers=False, columns=(GOLD_SEEN, find("rounds"))):
    """Reads the first `count` rounds of an example in a pool; right where one of them has a gold document."""

    count: int = setting(low=1)
    pool: str | None = setting(None, what="a name")

    def resolve(self, contents: Contents) -> "FirstRounds":
        with policy_errors(self.name):
            return self.filled(pool=contents.pool_of_table("rounds", self.pool))

    def needs(self, contents: Contents) -> Needs:
        gold = Needs(example_columns=frozenset(["gold_documents"]))
        return needs_of_rows("rounds", str(self.pool), "documents") | gold

    def path(self, on: Evaluator) -> PolicyPath:
        rows = on.block.tables["rounds", str(self.pool)]
        paid = rows.place < self.count
        gold = on.block.examples["gold_documents"].gather(rows.example)
        has_gold = pl.DataFrame([rows.frame["documents"], gold]).select(
            pl.col("documents").list.set_intersection("gold_documents").list.len() > 0
        )
        seen = rows.values_by_place(has_gold.to_series().cast(pl.Float64).fill_null(np.nan).to_numpy() * paid).max(
            axis=1
        )
        calls, missing = RowCalls(table="rounds", pool=str(self.pool)), rows.size == 0
        ending, reasons = np.full(len(seen), CAP), ("served", f"pool `{self.pool}` of `rounds` has no round")
        return path_of_rows(on.block, calls, paid, missing.astype(np.int16), reasons, ending, {"gold_seen": seen})
