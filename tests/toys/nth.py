"""A kind of policy: the n-th trace of a pool alone, with a column of its own in the outcomes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl

from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.engine.calls import CallSegment, ChosenTraces, PolicyPath, Realization, certain_calls
from replay.engine.costs import TraceCalls
from replay.engine.revisions import mean_outcome
from replay.policies.base import KINDS, Evaluator, ExplanationStage, Policy
from replay.policies.remarks import Remark, RemarkKind
from toolkit.columns import OutcomeColumn
from toolkit.settings import setting

SKIPPED = RemarkKind("skipped", lambda pools: [f"traces before the one taken are skipped in {', '.join(pools)}"])


@dataclass(frozen=True, kw_only=True)
class Nth(Policy):
    """The trace `number` of a pool, as if it were the only one."""

    pool: str = setting(what="a name")
    number: int = setting(low=0)
    kind: ClassVar[str] = "nth"

    @property
    def columns(self) -> tuple[OutcomeColumn, ...]:
        return (OutcomeColumn("skipped", unit="traces", cost=True, header="skipped", place=4),)

    def resolve(self, contents: Contents) -> "Nth":
        contents.require_pool(self.pool)
        return self

    def needs(self, contents: Contents) -> Needs:
        return Needs(pools=frozenset([self.pool]))

    def slices(self, contents: Contents) -> frozenset[str]:
        return frozenset([self.pool])

    def path(self, on: Evaluator) -> PolicyPath:
        pool = on.block.pools[self.pool]
        there = pool.size > self.number
        own = np.zeros(pool.code.shape)
        own[:, min(self.number, own.shape[1] - 1)] = there
        made = Realization(there.astype(float), (CallSegment({TraceCalls(self.pool): certain_calls(own)}),))
        reasons = ("served", f"pool `{self.pool}` has no trace {self.number}")
        outcome = mean_outcome(on.block, [(self.pool, self.number)], [made], (~there).astype(np.int16), reasons)
        skipped = {"skipped": np.full(len(there), float(self.number))}
        chosen = ChosenTraces((self.pool,), np.zeros(len(there), np.int64), np.full(len(there), self.number))
        return PolicyPath(replace(outcome, measured=skipped), (made,), chosen, {})

    def explain(self, on: Evaluator, repetition: int) -> Iterator[ExplanationStage]:
        yield ExplanationStage("the one trace", pl.DataFrame({"sample": [self.number]}))

    def remarks_on(self, block: object) -> Iterator[Remark]:
        if self.number:
            yield Remark(SKIPPED, self.pool)


KINDS[Nth.kind] = Nth
